"""A bundle with one of everything."""

BUNDLE = """\
version: 1
groups:
  curators: [act-lena, act-omar]
  agents: [agent-7]
  readers: [act-guest, act-lena]
protected_branches: [main, release]
rules:
  - id: readers-read
    allow: {actors: {group: readers}, actions: [read, export], branch_scope: any}
  - id: agents-read-main
    allow: {actors: {group: agents}, actions: [read], branch_scope: protected}
  - id: agents-work-aside
    allow: {actors: {group: agents}, actions: [read, change], branch_scope: unprotected}
  - id: agents-fork
    allow:
      actors: {group: agents}
      actions: [branch_create, branch_delete]
      target_branch_scope: unprotected
  - id: curators-merge
    allow: {actors: {group: curators}, actions: [branch_merge], target_branch_scope: protected}
  - id: curators-run
    allow: {actors: {group: curators}, actions: [invoke_query, admin]}
"""

SERVER = """\
version: 1
groups: {operators: [act-omar]}
rules:
  - id: operators-list
    allow: {actors: {group: operators}, actions: [graph_list]}
"""
