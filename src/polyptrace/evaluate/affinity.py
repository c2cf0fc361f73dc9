"""Affinity propagation (Frey and Dueck, Science 2007) for many similarity matrices of the same tracks at once.

Messages between tracks i and candidate exemplars k, with s(k, k) the preference, damped by 0.9 from round to round:

    r(i, k) = s(i, k) - max_{k' != k} (a(i, k') + s(i, k'))
    a(i, k) = min(0, r(k, k) + Σ_{i' not in {i, k}} max(0, r(i', k)))        a(k, k) = Σ_{i' != k} max(0, r(i', k))

Tracks with r(k, k) + a(k, k) > 0 are exemplars; a matrix is done when its exemplars have not changed for 50 rounds, or
after 500. Tuning tries 21 or 41 settings on small matrices, where one call after the other mostly waits for Python.
The labels are those of scikit-learn's `AffinityPropagation`, but for ties: it shakes similarities by 1e-16 only, which
leaves the labels of a symmetric pair of tracks to its random seed.
"""

import numpy as np
from numpy.typing import NDArray

DAMPING = 0.9
ROUNDS = 500
STEADY = 50
#: Two tracks that are each other's equals pass messages in circles until something tells them apart.
SHAKE = 1e-6
#: Similarities that are worked on at once.
ENTRIES = 2**21


def affinity_propagation(similarity: NDArray[np.float64], preference: NDArray[np.float64]) -> NDArray[np.int64]:
    """Clusters (S, n) of S matrices (S, n, n) with S preferences; every track its own where no exemplar was found."""
    settings, tracks, _ = similarity.shape
    labels = np.empty((settings, tracks), dtype=np.int64)
    waiting = []
    for number in range(settings):
        others = similarity[number][~np.eye(tracks, dtype=bool)]
        if tracks == 1 or (others == others[0]).all():  # nothing tells the tracks apart: one cluster, or each its own
            alone = tracks > 1 and preference[number] > others[0]
            labels[number] = np.arange(tracks) if alone else 0
        else:
            waiting.append(number)
    together = max(1, ENTRIES // tracks**2)
    for start in range(0, len(waiting), together):
        part = waiting[start : start + together]
        prepared = _without_ties(similarity[part], preference[part])
        for number, matrix, exemplar in zip(part, prepared, _exemplars(prepared), strict=True):
            labels[number] = _assigned(matrix, exemplar)
    return labels


def _without_ties(similarity: NDArray[np.float64], preference: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrices with preferences on their diagonals, shaken by `SHAKE` so that symmetric cases settle."""
    matrices = similarity.copy()
    place = np.arange(matrices.shape[1])
    matrices[:, place, place] = preference[:, None]
    noise = np.random.default_rng(0).standard_normal(matrices.shape[1:])
    return matrices + SHAKE * noise


def _exemplars(similarity: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which tracks (S, n) are exemplars at the end."""
    settings, tracks, _ = similarity.shape
    place = np.arange(tracks)
    found = np.zeros((settings, tracks), dtype=bool)
    running = np.arange(settings)
    responsibility = np.zeros_like(similarity)
    availability = np.zeros_like(similarity)
    steady = np.zeros(settings, dtype=np.int64)
    for round_number in range(ROUNDS):
        responsibility = DAMPING * responsibility + (1 - DAMPING) * _responsibilities(similarity, availability)
        availability = DAMPING * availability + (1 - DAMPING) * _availabilities(responsibility)
        exemplar = (responsibility + availability)[:, place, place] > 0
        steady = np.where((exemplar == found[running]).all(axis=1), steady + 1, 1)
        found[running] = exemplar
        done = (steady >= STEADY) & exemplar.any(axis=1) & (round_number >= STEADY)
        if done.any():
            left = ~done
            running, steady, similarity = running[left], steady[left], similarity[left]
            responsibility, availability = responsibility[left], availability[left]
        if not len(running):
            break
    return found


def _responsibilities(similarity: NDArray[np.float64], availability: NDArray[np.float64]) -> NDArray[np.float64]:
    total = availability + similarity
    best = total.argmax(axis=2)[..., None]
    highest = np.take_along_axis(total, best, axis=2)
    np.put_along_axis(total, best, -np.inf, axis=2)
    second = total.max(axis=2, keepdims=True)
    sent = similarity - highest
    np.put_along_axis(sent, best, np.take_along_axis(similarity, best, axis=2) - second, axis=2)
    return sent


def _availabilities(responsibility: NDArray[np.float64]) -> NDArray[np.float64]:
    place = np.arange(responsibility.shape[1])
    support = np.maximum(responsibility, 0.0)
    support[:, place, place] = responsibility[:, place, place]
    sent = support.sum(axis=1, keepdims=True) - support
    own = sent[:, place, place].copy()
    sent.clip(max=0.0, out=sent)
    sent[:, place, place] = own
    return np.asarray(sent)


def _assigned(similarity: NDArray[np.float64], exemplar: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Each track (n,) to its nearest exemplar, once the exemplars are the centres of their clusters."""
    centre = np.flatnonzero(exemplar)
    if not len(centre):
        return np.arange(len(exemplar))
    label = _nearest(similarity, centre)
    for number in range(len(centre)):
        members = np.flatnonzero(label == number)
        centre[number] = members[similarity[np.ix_(members, members)].sum(axis=0).argmax()]
    return _nearest(similarity, centre)


def _nearest(similarity: NDArray[np.float64], centre: NDArray[np.int64]) -> NDArray[np.int64]:
    label: NDArray[np.int64] = similarity[:, centre].argmax(axis=1)
    label[centre] = np.arange(len(centre))
    return label
