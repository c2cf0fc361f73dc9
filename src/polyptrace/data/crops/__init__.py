"""Crops: what the encoder sees of each box, from its image to the memory-mapped store and to the device."""
