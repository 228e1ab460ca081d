# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/tour, one concern each; docs/tour.md explains how they fit together."""
