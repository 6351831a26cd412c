# Everything here makes its own environment in .venv first, and works offline once that is there.
BIN := .venv/bin

.PHONY: help install demo ui test test-everywhere languages pages chaos containers fuzz histories soak bench clean

help: ## What can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 20

install: ## The environment in .venv; the command is .venv/bin/dcc
	@.ci/install

demo: install ## A crawling session on demonstration servers of this machine
	@$(BIN)/dcc demo

ui: install ## The Dagster UI on DCC_HOME: make ui DCC_HOME=.demo/home
	@$(BIN)/dcc ui

test: install ## Style, types and tests, against real servers where they are installed
	@.ci/install-servers
	@.ci/checks $(PYTEST_ARGS)

test-everywhere: ## All of that with every case on both databases, all trials and full sizes
	@TESTS_EVERYWHERE=1 $(MAKE) test

CATALOGUES := dcc/reports/languages/catalogues

languages: install ## Bring the catalogues in step with the texts in code and templates, and compile them
	@$(BIN)/pybabel -q extract -F babel.cfg --no-default-keywords -k mark -k mark_plural:1,2 -k say -k say_plural:1,2 \
		--no-location --sort-output --omit-header -o $(CATALOGUES)/dcc.pot dcc dcc_assets dcc_sensors
	@$(BIN)/pybabel -q update -i $(CATALOGUES)/dcc.pot -d $(CATALOGUES) -D dcc --no-fuzzy-matching --ignore-obsolete \
		--ignore-pot-creation-date --no-wrap
	@$(BIN)/pybabel compile -d $(CATALOGUES) -D dcc --statistics

pages: install ## The pages of docs that are made from the code: errors, rules, settings
	@for page in errors=dcc.cli.shell.error_advice rules=dcc.rules.rules_page settings=dcc.settings.settings_page; do \
		made=$$($(BIN)/python -m $${page#*=}) && printf '%s\n' "$$made" > docs/$${page%%=*}.md || exit 1; done

chaos: install ## Real servers, processes, workers, disks and clocks that fail at seeded moments, some ten minutes: CHAOS_ARGS="--rounds 8"
	@.ci/install-servers
	@TESTS_EVERYWHERE=1 $(BIN)/python -m pytest -q tests/operations/test_archive_audits.py -k corruptions
	@$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

fuzz: install ## Hostile input made by a coverage-guided fuzzer for ten minutes: make fuzz FUZZ_SECONDS=60
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install -qq --constraint constraints.txt atheris
	@$(BIN)/python -m tests.fuzzing $(FUZZ_TARGETS)

bench: install ## The platform beside sftp, lftp, unzip, xmllint and bulk loads, as a table
	@.ci/install-servers
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

containers: install ## The compose files of deploy/ started, tried and removed, ten minutes; needs docker compose: CONTAINER_ARGS="--archives 200"
	@$(BIN)/python -m tests.containers $(CONTAINER_ARGS)

histories: install ## 300 random histories of uploads and retries, and 300 of submissions and decisions, compared with models, ten minutes: HISTORY_ARGS="--seed 7 --mariadb"
	@$(BIN)/python -m tests.histories $(HISTORY_ARGS)

soak: install ## Weeks of an installation's life in a quarter of an hour: what grows, and whether all holds together
	@.ci/install-servers
	@$(BIN)/python -m tests.soak $(SOAK_ARGS)

clean: ## Remove the demonstration, results and caches; .venv stays
	rm -rf .demo .bench .fuzz build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
