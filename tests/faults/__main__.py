"""Let one fault strike: ``python -m tests.faults "4.0.1/update/kill/37/nothing"``, or a seed."""

import sys
import tempfile
from pathlib import Path

from tests.faults.judge import count_on_fake, judge_on_fake
from tests.faults.scenario import Places, Scenario

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (argument,) = sys.argv[1:]
        if argument.isdecimal():
            scenario = Places(lambda each: count_on_fake(each, folder)).draw(int(argument))
            print(scenario)
            folder = Path(tempfile.mkdtemp(dir=made))
        else:
            scenario = Scenario.parse(argument)
        judge_on_fake(scenario, folder)
        print("All is well.")
