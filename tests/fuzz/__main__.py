"""Look for inputs that end in something else than a result or one sentence: `python -m tests.fuzz --minutes 3`."""

import argparse
import re
import sys
import time

from hypothesis import HealthCheck, Phase, given, seed, settings

from .names import wrong
from .strategies import AREAS, OF_FRAMEWORKS

ROUND = 400  # examples of one seed
SHORTENING = 60  # seconds past the end
MOST = 10  # inputs of an area


class FoundError(Exception):
    """Tells hypothesis that an input fails."""


class Round:
    """The trials of one seed.

    Attributes:
        backend: the backend of layers and arrays.
        known: the kinds of failures that were found before.
        until: when to stop, also to shorten what was found.
        found: the last input that failed, hypothesis's shortest, with what is wrong with it; None if none failed.
        tries: how many inputs were tried.
    """

    def __init__(self, backend, known, until):
        self.backend, self.known, self.until, self.found, self.tries = backend, known, until, None, 0

    def run(self, area, number):
        """Try inputs of an area with this seed."""
        quiet = {"database": None, "deadline": None, "suppress_health_check": list(HealthCheck)}
        trial = given(AREAS[area](self.backend))(self.trial)
        try:
            seed(number)(settings(max_examples=ROUND, phases=(Phase.generate, Phase.shrink), **quiet)(trial))()
        except Exception:
            if self.found is None:
                raise

    def trial(self, text):
        """Raise if the input fails as none did before."""
        if time.monotonic() > self.until:
            return
        self.tries += 1
        said = wrong(text, self.backend)
        if said is not None and kind_of(said) not in self.known:
            self.found = text, said
            raise FoundError


def fuzz(area, backend, seconds, first):
    """Print inputs of different failures, each the shortest; return their number and that of all inputs."""
    known, tries, until, number = set(), 0, time.monotonic() + seconds, first
    while time.monotonic() < until and len(known) < MOST:
        trials = Round(backend, known, until + SHORTENING)
        trials.run(area, number)
        if trials.found is not None:
            text, said = trials.found
            known.add(kind_of(said))
            sys.stdout.write(f"{text!r},  # {said}\n")
            sys.stdout.flush()
        tries, number = tries + trials.tries, number + 1
    return len(known), tries


def kind_of(said):
    """Return what failures have in common that are one: the beginning, without numbers and names."""
    return re.sub(r"`[^`]*`|\d+", "", said)[:40]


def main():
    """Fuzz the areas one after the other; fail if something is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="numpy", help="the backend of layers and arrays")
    parser.add_argument("--minutes", type=float, default=3.0, help="for each area")
    parser.add_argument("--areas", nargs="+", choices=AREAS, help="which; all by default")
    parser.add_argument("--seed", type=int, default=0, help="of the first round; each has the next one")
    options = parser.parse_args()
    areas = options.areas or (AREAS if options.backend == "numpy" else OF_FRAMEWORKS)
    count = 0
    for area in areas:
        found, tries = fuzz(area, options.backend, 60 * options.minutes, options.seed)
        sys.stdout.write(f"{area}: {tries} inputs, {found} found\n")
        sys.stdout.flush()
        count += found
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
