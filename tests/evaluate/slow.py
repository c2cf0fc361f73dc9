"""Slow, independent ways to the same figures, written straight from their definitions."""

from itertools import permutations

import numpy as np


def cosine(a, b):
    """0 where a vector is zero."""
    lengths = np.sqrt((a * a).sum()) * np.sqrt((b * b).sum())
    return 0.0 if lengths == 0 else round(float((a * b).sum() / lengths), 11)


def average_precision(relevant):
    """Of one ranking, best first."""
    found, total = 0, 0.0
    for place, good in enumerate(relevant, start=1):
        if good:
            found += 1
            total += found / place
    return total / found


def orders(scores):
    """Every ranking (lists of items, best first) that the scores allow."""
    best_first = sorted(set(scores), reverse=True)
    rankings = [[]]
    for score in best_first:
        tied = [item for item, s in enumerate(scores) if s == score]
        rankings = [head + list(tail) for head in rankings for tail in permutations(tied)]
    return rankings


def query(scores, relevant, release=False):
    """(AP, hit at 1, hit at 5) of one query: means over every order of tied scores."""
    aps, firsts = [], []
    for ranking in orders(scores):
        good = [relevant[item] for item in ranking]
        firsts.append(good.index(True) + 1)
        if release:
            good = [relevant[item] and scores[item] > 0 for item in ranking]
        aps.append(average_precision(good) if any(good) else 0.0)
    firsts = np.array(firsts)
    return np.mean(aps), np.mean(firsts <= 1), np.mean(firsts <= 5)


def retrieval(vectors, polyp, release=False, in_gallery=lambda _query, _item: True):
    """{row of the query: (AP, hit at 1, hit at 5)}, without the queries that have no positive."""
    figures = {}
    for i in range(len(vectors)):
        gallery = [j for j in range(len(vectors)) if j != i and in_gallery(i, j)]
        relevant = [polyp[j] == polyp[i] for j in gallery]
        if any(relevant):
            figures[i] = query([cosine(vectors[i], vectors[j]) for j in gallery], relevant, release)
    return figures


def pairs(vectors, polyp):
    """(scores, same polyp?) of every unordered pair."""
    both = [(i, j) for i in range(len(vectors)) for j in range(i)]
    scores = np.array([cosine(vectors[i], vectors[j]) for i, j in both])
    return scores, np.array([polyp[i] == polyp[j] for i, j in both])
