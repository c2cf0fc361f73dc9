import os
import subprocess
import sys

from polyptrace.core.device import usable_cores

ON_ONE_CORE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from polyptrace.core.device import usable_cores
print(usable_cores())
"""


def test_only_the_cores_that_a_process_may_use_are_counted() -> None:
    assert usable_cores() == len(os.sched_getaffinity(0))
    assert subprocess.check_output([sys.executable, "-c", ON_ONE_CORE], text=True).strip() == "1"
