"""The command of another server as an inventory: which of its words have a place here, which have none and why.

text ─▶ the server in it (a line, a script, docker run, a compose file, a manifest) ─▶ a finding for each word, and for
what stands around it ─▶ the inventory. Nothing is run, and no word is passed over in silence.
"""
