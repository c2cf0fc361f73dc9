"""What every stage uses: errors, atomic files, locks, console output, random generators, devices, image codecs.

Import from the modules, not from here: `polyptrace.core.errors` must stay free of torch, so that `--help` is fast.
"""
