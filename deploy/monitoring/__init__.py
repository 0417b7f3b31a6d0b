"""Monitoring of a fleet: alert rules of service levels and of causes, written as Prometheus 2.42 reads them. Pure.

`levels` has service levels that clients notice, at the gateway; `causes` has faults, in the doctor's words; `rules`
writes both as one rule file. Every scraped target has two labels from its scrape job: `job` (JOBS in `alert`) and
`instance`: the host's name in the inventory, HOST/SERVER for a Triton, or the target of a probe.
"""
