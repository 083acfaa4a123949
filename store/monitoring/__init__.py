"""Watching many sites by small files: `rule` (what is watched), `messages` (the files), `state_files` (what each side
keeps), `site_check` (at a site), `centre_sync` (at the centre), `standing` (what is known now, and why not more)."""
