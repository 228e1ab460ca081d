# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/vm, one concern each; docs/testing-vm.md explains how they fit together."""
