# SPDX-License-Identifier: Apache-2.0
cryo_test_program(compute/life)
cryo_test_program(compute/bodies)
