"""Is an explanation any good: tasks with a known answer, and measures."""
