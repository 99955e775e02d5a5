"""Run the cases of one encoding in one backend, as JSON lines: `python -m posenc_backends.cli.report.encoding`."""

import json
import sys

from posenc_backends.conformance.cases import backend_under_test, run_cases
from posenc_backends.conformance.own import cases_of_encoding

from ..modules import read_encoding

if __name__ == "__main__":
    name, text = sys.argv[1:]
    on = backend_under_test(name)
    runs = getattr(on.testing, "runs", lambda check, encoding: True)
    cases = [case for case in cases_of_encoding(read_encoding(text)) if runs(case.check, case.encoding)]
    for result in run_cases(on, cases):
        print(json.dumps(result), flush=True)  # noqa: T201
