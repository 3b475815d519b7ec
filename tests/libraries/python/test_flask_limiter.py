"""Flask-Limiter in a Flask application. Run by tests/run.py."""

import time

import pytest
from flask import Flask, request
from flask_limiter import Limiter
from server_under_test import URL, at_once, between, eventually, restart_server


def application(prefix, strategy, **options):
    app = Flask(__name__)
    limiter = Limiter(
        key_func=lambda: request.headers.get("X-User", "user"),
        app=app,
        storage_uri=URL,
        strategy=strategy,
        headers_enabled=True,
        key_prefix=prefix,
        **options,
    )

    @app.get("/")
    @limiter.limit("3/minute")
    def index():
        return "served"

    @app.get("/second")
    @limiter.limit("1/second")
    def second():
        return "served"

    @app.get("/heavy")
    @limiter.limit("10/minute", cost=lambda: int(request.args["cost"]))
    def heavy():
        return "served"

    @app.get("/failing")
    @limiter.limit("1/minute", deduct_when=lambda response: response.status_code == 500)
    def failing():
        return "served", int(request.args["status"])

    @app.get("/many")
    @limiter.limit("20/minute")
    def many():
        return "served"

    shared = limiter.shared_limit("2/minute", scope="shared")

    @app.get("/shared/<name>")
    @shared
    def in_common(name):
        return name

    @app.get("/free")
    @limiter.exempt
    def free():
        return "served"

    @app.get("/default")
    def default():
        return "served"

    return app, limiter


STRATEGIES = ("fixed-window", "moving-window", "sliding-window-counter")


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return request.param


def statuses(client, path, count, **options):
    return [client.get(path, **options).status_code for _ in range(count)]


def test_requests_up_to_the_limit(strategy, transcript):
    client = application(f"flask-{strategy}", strategy)[0].test_client()
    replies = [client.get("/") for _ in range(5)]
    transcript.expect("status", [reply.status_code for reply in replies], [200, 200, 200, 429, 429])
    headers = [reply.headers for reply in replies]
    transcript.expect("limit", [header["X-RateLimit-Limit"] for header in headers], ["3"] * 5)
    transcript.expect("remaining", [header["X-RateLimit-Remaining"] for header in headers], ["2", "1", "0", "0", "0"])
    low = 0 if "counter" in strategy else 57
    transcript.observe("reset", between(int(headers[0]["X-RateLimit-Reset"]) - time.time(), low, 62))
    transcript.observe("retry after", between(int(headers[4]["Retry-After"]), low, 62))
    transcript.expect("body", "3 per 1 minute" in replies[4].text, True)
    transcript.expect("other user", client.get("/", headers={"X-User": "other"}).status_code, 200)


def test_the_window_ends(strategy, transcript):
    client = application(f"flask-end-{strategy}", strategy)[0].test_client()
    transcript.expect("status", statuses(client, "/second", 2), [200, 429])
    time.sleep(2.2 if "counter" in strategy else 1.2)
    transcript.expect("afterwards", statuses(client, "/second", 1), [200])


def test_routes(strategy, transcript):
    client = application(f"flask-routes-{strategy}", strategy, default_limits=["2/hour"])[0].test_client()
    transcript.expect("shared", statuses(client, "/shared/a", 1) + statuses(client, "/shared/b", 2), [200, 200, 429])
    transcript.expect("cost", [client.get(f"/heavy?cost={cost}").status_code for cost in (6, 4, 1)], [200, 200, 429])
    transcript.expect("free", statuses(client, "/free", 4), [200] * 4)
    transcript.expect("default", statuses(client, "/default", 3), [200, 200, 429])


def test_only_failures_count(strategy, transcript):
    client = application(f"flask-failing-{strategy}", strategy)[0].test_client()
    status = [client.get(f"/failing?status={code}").status_code for code in (200, 200, 500, 200)]
    transcript.expect("status", status, [200, 200, 500, 429])


def test_reset(transcript, direct):
    app, limiter = application("flask-reset", "fixed-window")
    client = app.test_client()
    statuses(client, "/", 4)
    transcript.observe("keys", sorted(direct.keys("*flask-reset*")))
    with app.app_context():
        limiter.reset()
    transcript.expect("keys left", direct.keys("*flask-reset*"), [])
    transcript.expect("afterwards", statuses(client, "/", 1), [200])


def test_many_at_once(strategy, transcript):
    app, _ = application(f"flask-many-{strategy}", strategy)
    status = at_once(6, 15, lambda: app.test_client().get("/many").status_code)
    transcript.expect("served", status.count(200), 20)


def test_the_scripts_are_gone_and_the_server_is_killed(strategy, transcript, direct):
    client = application(f"flask-lost-{strategy}", strategy)[0].test_client()
    first = statuses(client, "/", 2)
    direct.script_flush()
    transcript.expect("status", first + statuses(client, "/", 2), [200, 200, 200, 429])
    restart_server()

    def serves():
        status = client.get("/second", headers={"X-User": "probe"}).status_code
        assert status in (200, 429), status

    eventually(serves)
    transcript.expect("afterwards", statuses(client, "/", 4), [200, 200, 200, 429])
