"""Objects in buckets, on web servers and on the hub: clients, URLs, retries."""
