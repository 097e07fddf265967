# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test test-long test-length test-scale test-see test-frameworks test-lerobot test-install test-pythons lint docs pictures bench bench-speech bench-chat bench-robot torture faults golden lerobot-parity robot-long clean
install: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch .venv/.bare $@

# The package without extras, in the same .venv: other targets add what they need.
.venv/.bare: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

demo: .venv/.bare  ## 12 languages, exact mix, stop and resume: the whole idea in a minute
	$(BIN)/penstock demo

test: install golden
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not long and not frameworks and not see and not scale and not length"

test-long: install  ## whole runs of the examples and demos, and campaigns of many processes (nine minutes)
	PENSTOCK_REQUIRE_RANKS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m long

test-length: install  ## batches by length and whole clips: other ranks and workers, resume at every step (five minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m length

test-scale: install  ## indexes by many processes: killed, in shares, the same bytes (five minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m scale

test-see: install  ## pages in a real browser (Debian's package chromium)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m see

test-frameworks: .venv-frameworks/.installed .venv-frameworks/moves/.installed  ## Lightning, transformers, TRL, Accelerate, torch: two processes, killed and resumed
	.venv-frameworks/bin/python -m pytest -n 2 --dist loadfile tests/frameworks

.venv-frameworks/.installed: pyproject.toml constraints.txt tests/frameworks/requirements.txt
	test -x .venv-frameworks/bin/python || $(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[chat,frameworks,robot,speech]' -r tests/frameworks/requirements.txt
	touch $@

# Other loaders, beside the environment: only the tests of docs/moves/ see them.
.venv-frameworks/moves/.installed: tests/frameworks/moves.txt | .venv-frameworks/.installed
	rm -rf .venv-frameworks/moves
	.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target .venv-frameworks/moves -r $<
	touch $@

test-install: .venv/.bare  ## the wheel in fresh environments: bare, [speech], [chat], [robot] (three minutes)
	$(BIN)/python tests/install/check.py

test-pythons: .venv/.bare  ## the golden order and the wheel on other Pythons; names what it skips
	$(BIN)/python tests/install/check.py --python 3.12 --python 3.13

golden: install .venv-numpy-oldest/.installed  ## the order, on the oldest and the newest numpy
	PYTHONPATH=src .venv-numpy-oldest/bin/python tests/golden/check.py
	PYTHONPATH=src $(BIN)/python tests/golden/check.py

.venv-numpy-oldest/.installed:
	$(PYTHON) -m venv .venv-numpy-oldest
	.venv-numpy-oldest/bin/python -m pip install --quiet --disable-pip-version-check numpy==1.26.4
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory docs

# NO_MKDOCS_2_WARNING: the theme would print in every build that it is maintained until May 2027. Not --quiet: that
# switches --strict off.
docs: install  ## the pages of docs/ and the API reference, in site/
	$(BIN)/python docs/make_commands.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: install  ## the pictures of README and docs, from the demos (needs Debian's package chromium; two minutes)
	$(BIN)/python docs/make_pictures.py

bench: install  ## what each part costs, as ratios taken in one run
	$(BIN)/python benchmarks/scale.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/features_speed.py
	$(BIN)/python benchmarks/features_crops.py
	$(BIN)/python benchmarks/labels.py
	$(BIN)/python benchmarks/packs.py
	PYTHONPATH=. $(BIN)/python benchmarks/cache_warm.py
	PYTHONPATH=. $(BIN)/python benchmarks/cache_download.py
	$(BIN)/python benchmarks/cache_admission.py
	PYTHONPATH=. $(BIN)/python benchmarks/first_batch.py

bench-speech: install  ## the speech job against its peers; PEERS: the python of their environment (docs/benchmarks.md)
	$(BIN)/python benchmarks/speech_data.py
	$(PEERS) benchmarks/speech_convert.py
	$(BIN)/python benchmarks/speech.py --peers $(PEERS)
	PYTHONPATH=. $(BIN)/python benchmarks/cache_feed.py

bench-robot: install  ## the robot job against its peers; PEERS: the python of their environment (docs/benchmarks.md)
	$(BIN)/python benchmarks/robot_data.py
	$(PEERS) benchmarks/robot_convert.py
	$(BIN)/python benchmarks/robot.py --peers $(PEERS)
	$(BIN)/python benchmarks/robot_first_batch.py

bench-chat: install  ## the chat job against datasets (ten minutes)
	$(BIN)/python benchmarks/chat_data.py
	$(BIN)/python benchmarks/chat.py
	$(BIN)/python benchmarks/packs.py

torture: install  ## the node cache at full size: storms of processes, faults, 100 × kill -9 (15 minutes)
	PENSTOCK_TORTURE=full $(BIN)/python -m pytest tests/store/cache/test_cache_torture.py -s --timeout 1800

faults: install  ## 200 rounds of seeded faults over a real server and real processes, in all three pipelines (fifteen minutes)
	$(BIN)/python -m tests.faults.campaign --rounds 200

# LeRobot 0.6 needs Python 3.12, and FFmpeg's libraries (apt-get install ffmpeg); its pins do not agree with ours.
LEROBOT_PYTHON ?= $(shell $(PYTHON) -c "from tests.install.check import find_python; print(find_python('3.12') or 'python3.12')")
test-lerobot:  ## LeRobot's own training script, killed and resumed (three minutes beside the install); names what it skips
	@if ! $(LEROBOT_PYTHON) -c 'import venv' 2>/dev/null; then \
	  echo "SKIPPED: LeRobot's training script: there is no $(LEROBOT_PYTHON); make test-lerobot LEROBOT_PYTHON=..."; \
	elif ! command -v ffmpeg >/dev/null; then \
	  echo "SKIPPED: LeRobot's training script: FFmpeg's libraries are missing; apt-get install ffmpeg"; \
	else \
	  $(MAKE) .venv-lerobot/.installed && PYTHONPATH=src .venv-lerobot/bin/python -m pytest tests/frameworks/test_lerobot.py; \
	fi

lerobot-parity: install .venv-lerobot/.installed  ## every frame against LeRobot's own class, and its own tests; DATASETS: folders of others; LEROBOT: its repository
	$(BIN)/python -m tests.parity.theirs --lerobot .venv-lerobot/bin/python $(LEROBOT)
	$(BIN)/python -m tests.parity.compare --lerobot .venv-lerobot/bin/python $(DATASETS)

.venv-lerobot/.installed: tests/parity/requirements.txt
	$(LEROBOT_PYTHON) -m venv .venv-lerobot
	.venv-lerobot/bin/python -m pip install --quiet --disable-pip-version-check -r tests/parity/requirements.txt
	.venv-lerobot/bin/python -m pip install --quiet --disable-pip-version-check --no-deps lerobot==0.6.1
	touch $@

robot-long: install  ## memory of robot runs: small and large cameras; 10,000 batches over 1,000 videos (five minutes)
	$(BIN)/python -m tests.long.robot

clean:
	rm -rf .venv .venv-frameworks .venv-lerobot .venv-numpy-oldest demo-data bench-data site
