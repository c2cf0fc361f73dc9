"""What the page shows."""

import numpy as np
import pytest
from sklearn.metrics.cluster import pair_confusion_matrix

from polyptrace.explore import Workspace
from polyptrace.explore.page_content import PageContent, agreement_with_labels


@pytest.mark.parametrize("seed", range(5))
def test_lesions_and_polyps_agree_on_the_pairs_that_scikit_learn_counts(seed: int) -> None:
    random = np.random.default_rng(seed)
    lesion, polyp = random.integers(-1, 4, 30), random.choice(np.array(["", "a", "b", "c"], object), 30)
    known = (lesion >= 0) & (polyp != "")
    table = pair_confusion_matrix(polyp[known].astype(str), lesion[known])
    expected = {"agreeing": int(np.trace(table)) // 2, "pairs": int(table.sum()) // 2}
    assert agreement_with_labels(lesion, polyp) == expected


def test_one_labelled_track_has_no_pair_to_agree_on() -> None:
    assert agreement_with_labels(np.array([0, 1]), np.array(["a", ""], object)) is None


def test_an_answer_that_arrives_while_the_state_is_read_has_a_later_revision(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, procedure = PageContent(workspace, []), workspace.procedure(0)
    read = procedure.state

    def read_before_an_answer(who: str | None = None) -> object:
        state = read(who)
        items = tuple(procedure.items[:2])
        workspace.journal.append("answer", "Bob", video=procedure.key, items=items, answer="same")
        return state

    monkeypatch.setattr(procedure, "state", read_before_an_answer)
    shown = page.state(0, None, "Ada")
    assert shown["answers"] == 0
    assert shown["revision"] < page.revision  # so the page of Ada reads the state again
