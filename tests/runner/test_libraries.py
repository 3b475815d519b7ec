"""Does the comparison of transcripts notice what it is there to notice?"""

import tempfile
import unittest
from pathlib import Path

from .libraries import ENABLED, SUITES, compare, read_transcript, with_differences

TRANSCRIPT = ["fixed window: allowed = [true,false]", 'reset: answer = {"deleted":1}']


class TranscriptTest(unittest.TestCase):
    def test_equal_ones_pass(self):
        self.assertEqual(compare(TRANSCRIPT, list(TRANSCRIPT)), "")

    def test_another_value_is_shown(self):
        found = ["fixed window: allowed = [true,true]", TRANSCRIPT[1]]
        difference = compare(TRANSCRIPT, found)
        self.assertIn("-fixed window: allowed = [true,false]", difference)
        self.assertIn("+fixed window: allowed = [true,true]", difference)

    def test_a_type_is_part_of_a_value(self):
        self.assertNotEqual(compare(['a: b = "1"'], ["a: b = 1"]), "")

    def test_one_observation_less_is_noticed(self):
        self.assertNotEqual(compare(TRANSCRIPT, TRANSCRIPT[:1]), "")

    def test_another_order_is_noticed(self):
        self.assertNotEqual(compare(TRANSCRIPT, TRANSCRIPT[::-1]), "")

    def test_many_differences_are_cut(self):
        lines = compare([], [f"a: {n} = 1" for n in range(1000)]).splitlines()
        self.assertLess(len(lines), 50)
        self.assertIn("more lines", lines[-1])

    def test_a_transcript_of_nothing_is_refused(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "transcript"
            path.touch()
            with self.assertRaisesRegex(RuntimeError, "no transcript"):
                read_transcript(path)

    def test_what_is_no_transcript_is_refused(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "transcript"
            path.write_text("a: b = [1,\n")
            with self.assertRaises(ValueError):
                read_transcript(path)


class DifferencesTest(unittest.TestCase):
    def test_a_difference_is_expected_of_tollgate(self):
        expected = with_differences(TRANSCRIPT, {"fixed window: allowed": ([True, False], [True, True])})
        self.assertEqual(compare(expected, ["fixed window: allowed = [true,true]", TRANSCRIPT[1]]), "")
        self.assertNotEqual(compare(expected, TRANSCRIPT), "")

    def test_a_difference_that_redis_does_not_show_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, "was to be"):
            with_differences(TRANSCRIPT, {"fixed window: allowed": ([False], [True])})

    def test_a_difference_that_nothing_observes_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, "nothing observes"):
            with_differences(TRANSCRIPT, {"fixed window: denied": (1, 2)})


class EnabledTest(unittest.TestCase):
    def test_each_enabled_suite_exists(self):
        self.assertLessEqual(set(ENABLED), {suite.name for suite in SUITES})


if __name__ == "__main__":
    unittest.main()
