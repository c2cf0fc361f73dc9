"""What was found as one page: the film strip of the query, and of each track like it, with when it was seen."""

from html import escape

from polyptrace.core.console import counted
from polyptrace.data import polyp_keys
from polyptrace.embed import Embeddings
from polyptrace.find.tracks import Found
from polyptrace.report.clock import Clock
from polyptrace.report.film import Pictures
from polyptrace.report.gallery import strip_html
from polyptrace.report.page import Section, notice, page, paragraph
from polyptrace.report.tables import generated

EXPLAINED = (
    "The number on a strip is the cosine of its vector with the query's. Of a track of the same procedure the second"
    " one says how many tracks of other procedures, which show other people's lesions, are less like the query."
)


def moments(tracks: Embeddings, row: int) -> str:
    """From when to when a track was seen: 12:34 to 12:50, or frames."""
    clock = Clock(float(tracks.fps[row]))
    return f"{clock.at(float(tracks.position[row]))} to {clock.at(float(tracks.last[row])).removeprefix('frame ')}"


def found_page(tracks: Embeddings, found: Found, pictures: Pictures, footer: str) -> str:
    """The whole page."""
    query = found.query
    strips = [_strip(tracks, query, pictures, "asked", "query")]
    for row, cosine, beyond in zip(found.rows.tolist(), found.cosine, found.beyond, strict=True):
        sign = f"{cosine:.2f}" + ("" if beyond != beyond else f" · {100 * beyond:.1f} %")
        strips.append(_strip(tracks, row, pictures, kind_of(tracks, query, row), sign))
    said = paragraph(f"{EXPLAINED} There are {found.others:,} of them.")
    html = f'<div class="query"><div class="strips">{"".join(strips)}</div></div>{said}'
    title = f"Like track {tracks.track[query]} of procedure {tracks.video[query]}"
    lead = f"Seen {moments(tracks, query)}. The {counted(len(found.rows), 'track')} most like it, of {len(tracks):,}."
    made_up = generated(sorted(set(tracks.dataset.tolist())))
    warning = notice("Generated procedures.", f"{', '.join(made_up)}: rendered by polyptrace, not taken in patients.")
    return page(title, lead, warning if made_up else "", [Section("found", "Found", html)], footer)


def kind_of(tracks: Embeddings, query: int, row: int) -> str:
    """right or wrong where both polyps are known, else found."""
    polyp = polyp_keys(tracks)
    if "" in (polyp[query], polyp[row]):
        return "found"
    return "right" if polyp[query] == polyp[row] else "wrong"


def _strip(tracks: Embeddings, row: int, pictures: Pictures, kind: str, sign: str) -> str:
    key = (str(tracks.dataset[row]), str(tracks.video[row]), int(tracks.track[row]), int(tracks.position[row]))
    signs = {"right": "✓ ", "wrong": "✗ "}
    what = f"{tracks.video[row]} · track {tracks.track[row]}"
    return strip_html(key, pictures, kind, escape(signs.get(kind, "") + sign), what, moments(tracks, row))
