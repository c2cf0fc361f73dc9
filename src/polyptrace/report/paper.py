"""The paper's own figures (its Table 1, on REAL-Colon, SUN, PolypSize and PolypsSet), to be quoted as the paper's."""

from polyptrace.report.tables import Quoted

GROUP = "As printed in the paper, on its four public datasets: not measured here"

_COLUMNS = (
    ("retrieval", "map"),
    ("retrieval", "hr1"),
    ("retrieval", "hr5"),
    ("reid", "auroc"),
    ("reid", "aupr"),
    ("size", "f1"),
    ("histology", "accuracy"),
)

#: Name, parameters (M), FLOPs column (G), and the seven figures in per cent.
_ROWS = (
    ("DinoV2-S/14", 22.1, 44.2, 47.31, 89.81, 95.52, 80.07, 29.77, 62.81, 61.68),
    ("DinoV2-B/14", 86.6, 175.7, 46.40, 87.77, 95.79, 78.74, 26.99, 67.97, 66.57),
    ("DinoV2-L/14", 304.4, 622.5, 43.08, 87.50, 94.97, 75.64, 23.77, 68.02, 70.63),
    ("DinoV2-g/14", 1136, 2331, 48.29, 90.35, 95.92, 78.23, 27.04, 70.22, 70.14),
    ("DinoV3-S/16", 21.6, 34.7, 48.95, 88.99, 96.33, 80.47, 31.77, 64.57, 67.13),
    ("DinoV3-B/16", 85.7, 137.7, 47.17, 88.45, 96.06, 77.04, 26.54, 69.67, 71.54),
    ("DinoV3-L/16", 303.1, 487.2, 43.89, 87.91, 94.97, 68.97, 20.54, 66.58, 75.59),
    ("V-JEPA2", 326.0, 272.1, 29.01, 70.79, 88.32, 69.84, 17.14, 68.68, 61.54),
    ("EndoFM", 121.3, 190.1, 45.75, 87.64, 94.70, 79.71, 31.91, 75.15, 68.32),
    ("EndoFM-LV", 121.3, 190.1, 28.21, 63.18, 81.39, 67.56, 19.28, 61.99, 68.60),
    ("EndoViT", 86.6, 134.9, 31.12, 68.34, 85.33, 68.26, 17.51, 56.52, 61.54),
    ("SurgeNet", 24.3, 31.0, 44.75, 85.87, 94.70, 75.86, 25.23, 68.83, 64.62),
    ("Sup", 25.6, 33.1, 54.72, 81.93, 94.97, 93.85, 41.58, 62.35, 72.66),
    ("TA", 25.6, 33.1, 57.52, 84.24, 95.24, 94.33, 43.81, 63.87, 73.29),
    ("TPC", 25.6, 33.1, 43.25, 75.82, 91.85, 78.40, 27.58, 64.13, 64.06),
    ("MVE", 25.6, 33.1, 42.05, 81.25, 94.16, 79.73, 27.47, 58.82, 66.22),
    ("SFE", 28.0, 33.1, 51.04, 86.96, 95.52, 89.36, 46.13, 65.35, 63.22),
    ("Ours", 25.6, 33.1, 63.13, 90.22, 96.47, 94.17, 51.94, 70.24, 82.38),
)

PAPER = tuple(
    Quoted(
        GROUP,
        name,
        params,
        macs,
        dict(zip(_COLUMNS, figures, strict=True)),
        ("size",) if name == "EndoFM" else (),
    )
    for name, params, macs, *figures in _ROWS
)
