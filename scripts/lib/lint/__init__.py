# SPDX-License-Identifier: Apache-2.0
"""The checks of scripts/lint. Each takes a Tree and returns its complaints, one string each."""
