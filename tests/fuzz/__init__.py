"""Damaged files and texts of every kind: the outcome is a result or an error of ours, and nothing else ever.

    make fuzz                                          # 100,000 cases with a fresh seed, which is printed
    python -m tests.fuzz --cases 1000000 --seed 7      # the same cases every time
    python -m tests.fuzz --seed 7 --case 12345         # one of them again, in this process, with its traceback

`seeds.py` makes whole files of every format and layout, `damage.py` hurts one of them, knowing what it is made of,
`doors.py` opens it the way a user would, `workers.py` does so in watched processes, and `report.py` writes the figures
into a page. Nothing here judges whether a result is right: other tests do that.
"""
