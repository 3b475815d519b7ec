"""redis-cli against a node, as a person and as a script use it. Run by tests/run.py."""

import subprocess
import time

import pytest
from node_under_test import HOST, PASSWORD, PASSWORD_PORT, PORT, new_key, restart_node, run


@pytest.fixture(params=["-2", "-3"], ids=["resp2", "resp3"])
def protocol(request):
    return request.param


def cli(*args, port=PORT, stdin=""):
    code, out, err = run("redis-cli", "-h", HOST, "-p", port, *args, stdin=stdin)
    return code, out.removesuffix("\n"), err


def answer(*args, **options):
    code, out, err = cli(*args, **options)
    assert code == 0, f"{out}\n{err}"
    return out


def numbers(text):
    return [int(line) for line in text.splitlines()]


def test_connects_with_a_database(protocol):
    key = new_key("database")
    answer(protocol, "-n", "3", "RL.CHECK", key, "LIMIT", "5", "PER", "1m")
    assert answer(protocol, "-n", "3", "EXISTS", key) == "1"
    assert answer(protocol, "EXISTS", key) == "0"


def test_keeps_a_name_for_a_session(protocol):
    assert answer(protocol, stdin="CLIENT SETNAME checkout\nCLIENT GETNAME\n").splitlines() == ["OK", "checkout"]


def test_rl_check_allows_five_of_seven(protocol):
    key = new_key("check")
    replies = answer(protocol, "-r", "7", "RL.CHECK", key, "LIMIT", "5", "PER", "1m").splitlines()
    if protocol == "-3":
        names = ["allowed", "limit", "remaining", "retry_after_ms", "reset_at_ms", "source"]
        assert [line.split(" ")[0] for line in replies] == names * 7
        replies = [line.split(" ")[1] for line in replies]
    replies = [replies[at:at + 6] for at in range(0, len(replies), 6)]
    now_ms = time.time() * 1000
    assert [reply[:3] for reply in replies] == [
        ["1", "5", "4"], ["1", "5", "3"], ["1", "5", "2"], ["1", "5", "1"], ["1", "5", "0"], ["0", "5", "0"],
        ["0", "5", "0"],
    ]
    assert [reply[3] for reply in replies[:5]] == ["0"] * 5
    assert all(0 < int(reply[3]) <= 12_000 for reply in replies[5:])
    assert all(now_ms < int(reply[4]) < now_ms + 61_000 for reply in replies)
    assert {reply[5] for reply in replies} == {"owner"}


def test_a_terminal_shows_the_types(protocol):
    shown = answer(protocol, "--no-raw", "RL.CHECK", new_key("typed"), "LIMIT", "5", "PER", "1m").splitlines()
    if protocol == "-3":
        assert shown[0] == '1# "allowed" => (integer) 1'
        assert shown[5] == '6# "source" => "owner"'
    else:
        assert shown[0] == "1) (integer) 1"
        assert shown[5] == '6) "owner"'


def test_cl_throttle_allows_five_of_seven(protocol):
    replies = numbers(answer(protocol, "-r", "7", "CL.THROTTLE", new_key("throttle"), "4", "5", "60"))
    replies = [replies[at:at + 5] for at in range(0, len(replies), 5)]
    assert [reply[:3] for reply in replies] == [
        [0, 5, 4], [0, 5, 3], [0, 5, 2], [0, 5, 1], [0, 5, 0], [1, 5, 0], [1, 5, 0]
    ]
    assert [reply[3] for reply in replies[:5]] == [-1] * 5
    assert all(11 <= reply[3] <= 12 for reply in replies[5:])
    assert all(0 < reply[4] <= 60 for reply in replies)


def test_a_bucket_is_a_key(protocol):
    key = new_key("bucket")
    answer(protocol, "RL.CHECK", key, "LIMIT", "5", "PER", "1m")
    assert answer(protocol, "EXISTS", key) == "1"
    assert answer(protocol, "TYPE", key) == "bucket"
    assert int(answer(protocol, "TTL", key)) > 0
    assert answer(protocol, "--scan", "--pattern", f"{key}*") == key
    assert answer(protocol, "DEL", key) == "1"
    assert answer(protocol, "EXISTS", key) == "0"
    assert answer(protocol, "TYPE", key) == "none"
    assert answer(protocol, "TTL", key) == "-2"


def test_commands_from_standard_input(protocol):
    key = new_key("piped")
    replies = numbers(answer(protocol, stdin=f"CL.THROTTLE {key} 999 1000 2592000\n" * 1000))
    assert replies[2::5] == list(range(999, -1, -1))


def test_mass_insertion_by_pipe_mode():
    key = new_key("pipe-mode")
    command = f"*5\r\n$11\r\nCL.THROTTLE\r\n${len(key)}\r\n{key}\r\n$3\r\n999\r\n$4\r\n1000\r\n$7\r\n2592000\r\n"
    shown = answer("--pipe", stdin=command * 1000)
    assert shown.splitlines()[-1] == "errors: 0, replies: 1000"
    assert numbers(answer("CL.THROTTLE", key, "999", "1000", "2592000", "0"))[2] == 0


def test_an_error_is_shown(protocol):
    assert cli(protocol, "RL.CHECK", new_key("error"), "LIMIT", "0", "PER", "1m")[1].startswith("ERR ")
    assert cli(protocol, "-e", "RL.NO-SUCH-COMMAND")[0] == 1
    assert cli(protocol, "RL.NO-SUCH-COMMAND", "a")[1].startswith("ERR unknown command 'RL.NO-SUCH-COMMAND'")


def test_recovers_when_the_node_is_killed_and_started_again(protocol):
    key = new_key("reconnect")
    argv = ["redis-cli", "-h", HOST, "-p", PORT, protocol]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          bufsize=1) as session:
        session.stdin.write("PING\n")
        assert session.stdout.readline() == "PONG\n"
        restart_node()
        # The first command is lost with the connection, says redis-cli, and connects again for the next.
        session.stdin.write(f"PING\nCL.THROTTLE {key} 4 5 60\nEXISTS {key}\n")
        session.stdin.close()
        shown = session.stdout.read().splitlines()
    assert shown[-6:-1] == ["0", "5", "4", "-1", "12"]
    assert shown[-1] == "1"


def test_a_password_is_asked_for(protocol):
    key = new_key("password")
    check = ("CL.THROTTLE", key, "4", "5", "60")
    silent = ("--no-auth-warning", protocol)
    assert numbers(answer(*silent, "-a", PASSWORD, *check, port=PASSWORD_PORT))[0] == 0
    assert "NOAUTH" in "".join(map(str, cli(protocol, *check, port=PASSWORD_PORT)))
    refused = "".join(map(str, cli(*silent, "-a", "wrong", *check, port=PASSWORD_PORT)))
    assert "WRONGPASS" in refused or "AUTH failed" in refused
    shown = answer(stdin=f"AUTH wrong\nAUTH '{PASSWORD}'\nEXISTS {key}\n", port=PASSWORD_PORT).splitlines()
    assert shown[0].startswith("WRONGPASS")
    assert shown[-2:] == ["OK", "1"]
