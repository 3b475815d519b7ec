"""What tests/run.py is made of. Python's standard library only: it runs before anything is installed."""
