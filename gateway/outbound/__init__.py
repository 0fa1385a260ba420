"""From a turn's outcome to a sent part: splitting, rendering, previews, rate limits, delivery."""
