import unittest

from parking import fee, receipt, started_hours


class ParkingTest(unittest.TestCase):
    def test_first_minutes_are_free(self):
        self.assertEqual(fee(0), 0)
        self.assertEqual(fee(15), 0)

    def test_started_hours(self):
        self.assertEqual(started_hours(59), 1)
        self.assertEqual(started_hours(61), 2)
        self.assertEqual(started_hours(7 * 24 * 60 + 1), 7 * 24 + 1)

    def test_a_full_hour_is_one_hour(self):
        self.assertEqual(started_hours(60), 1)
        self.assertEqual(fee(60), 250)
        self.assertEqual(fee(120), 500)

    def test_a_day_costs_no_more_than_the_maximum(self):
        self.assertEqual(fee(23 * 60), 1800)
        self.assertEqual(fee(24 * 60), 1800)

    def test_receipt(self):
        self.assertEqual(receipt(75), "1:15 h  5.00")


if __name__ == "__main__":
    unittest.main()
