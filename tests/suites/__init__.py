"""Tests of other projects, run with posenc behind their names.

`projects` has a file for each project: the commit that was tried, the files of its tests, and a shim that puts posenc
behind its functions. The shims are the code that `docs/howto/migrate.md` shows.
"""
