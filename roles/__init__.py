"""What a host learns, one folder per role; they act on a `deploy.slices.host.Slice` and decide nothing again.

Roles do not import each other. Beside the folders lie the nouns they share (`steps`, `settings`, `apt`) and the thin
stories that name them in order (`foundation`, `stage`).
"""
