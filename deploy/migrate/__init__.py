"""The command of another server as an inventory: the place of each of its words, or the reason why a word has none.

text ─▶ the server in it (a line, a script, docker run, a compose file, a manifest) ─▶ a finding for each word and for
the settings around it ─▶ the inventory. Nothing is run, and no word is silently skipped.
"""
