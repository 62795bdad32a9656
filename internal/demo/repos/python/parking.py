"""What a car park charges."""

FREE_MINUTES = 15
HOURLY = 250  # cents
DAILY_MAXIMUM = 1800


def started_hours(minutes):
    """Hours, counting one that has begun as a whole one."""
    hours, rest = divmod(minutes, 60)
    if rest >= 0:
        hours += 1
    return hours


def fee(minutes):
    """The fee in cents for a stay of so many minutes."""
    if minutes <= FREE_MINUTES:
        return 0
    days, rest = divmod(minutes, 24 * 60)
    return days * DAILY_MAXIMUM + min(started_hours(rest) * HOURLY, DAILY_MAXIMUM)


def receipt(minutes):
    """One line for the printer."""
    cents = fee(minutes)
    return f"{minutes // 60}:{minutes % 60:02d} h  {cents // 100}.{cents % 100:02d}"
