"""The paper's Figures 1 and 2 for any dataset: what the temporal supervision draws, and how pure it is."""
