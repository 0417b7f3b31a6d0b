"""Monitoring of a fleet: alert rules of service levels and of causes, written as Prometheus 2.42 reads them. Pure.

`levels` has what clients feel, at the gateway; `causes` has what breaks, with the doctor's words for it; `rules`
writes both as one rule file. Every scraped target has two labels from its scrape job: `job` (JOBS in `alert`) and
`instance`, the host's name in the inventory, or HOST/SERVER of a Triton, and of a probe what it asks.
"""
