"""Boards: saved panels on one page. Read `board`, then `board_file`, `board_folder`, `panels` and `export`."""
