"""Where a lesion comes back: a track is asked for, the tracks most like it are found and shown."""

from polyptrace.find.page import found_page, kind_of, moments
from polyptrace.find.tracks import Among, Found, most_like, track_at, whole_tracks

__all__ = ["Among", "Found", "found_page", "kind_of", "moments", "most_like", "track_at", "whole_tracks"]
