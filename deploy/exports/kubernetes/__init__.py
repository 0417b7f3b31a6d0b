"""Manifests of a plan: a Deployment for each server and gateway of each host, and the objects around them.

names        names of objects, labels, references
refused      plans that Pods cannot run as hosts do
files        ConfigMaps of a release, split below the limit of an annotation, and volumes of them
weights      claim, fetch Job and its policy
pods         the Deployment of a server
gateway      the Deployment of a gateway
network      Services, policies, disruption budgets
monitoring   PodMonitors, rules, dashboards
manifests    all objects as files of a folder
"""
