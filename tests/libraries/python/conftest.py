from server_under_test import direct, transcript  # noqa: F401
