"""Everything that the commands refuse: cases in tables, run in one process of their own."""
