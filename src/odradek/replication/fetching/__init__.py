"""A follower's fetches from its leaders, as decisions without IO: what is followed and how far that is (`states`), what the next request
says (`plan`), what an answer asks for (`answer`). `server.fetchers` performs them.
"""
