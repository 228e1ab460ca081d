// SPDX-License-Identifier: Apache-2.0
#include "states.hpp"

#include <cmath>
#include <cstring>
#include <random>

namespace cryo::bench {

namespace {

using Random = std::mt19937_64;

template <class T>
void append(std::vector<uint8_t> &to, const std::vector<T> &from)
{
    auto *bytes = reinterpret_cast<const uint8_t *>(from.data());
    to.insert(to.end(), bytes, bytes + from.size() * sizeof(T));
}

// Multigrid: a smooth field on a grid, a residual, and grids half as fine; zero boundaries.
std::vector<uint8_t> multigrid(size_t size)
{
    std::vector<uint8_t> out;
    for (size_t share = size / 2; share >= 4096; share /= 2) {
        auto n = size_t(std::cbrt(double(share) / 16));
        std::vector<double> field(n * n * n);
        std::vector<double> residual(n * n * n);
        auto at = [&](size_t x, size_t y, size_t z) { return (z * n + y) * n + x; };
        for (size_t z = 1; z + 1 < n; z++)
            for (size_t y = 1; y + 1 < n; y++)
                for (size_t x = 1; x + 1 < n; x++)
                    field[at(x, y, z)] = std::sin(6.3 * double(x) / double(n)) *
                                         std::cos(3.1 * double(y) / double(n)) * double(z);
        for (size_t z = 1; z + 1 < n; z++)
            for (size_t y = 1; y + 1 < n; y++)
                for (size_t x = 1; x + 1 < n; x++)
                    residual[at(x, y, z)] = 6 * field[at(x, y, z)] - field[at(x - 1, y, z)] -
                                            field[at(x + 1, y, z)] - field[at(x, y - 1, z)] -
                                            field[at(x, y + 1, z)] - field[at(x, y, z - 1)] -
                                            field[at(x, y, z + 1)];
        append(out, field);
        append(out, residual);
    }
    return out;
}

// Conjugate gradients: a sparse matrix in rows (values, columns, row starts) and its vectors.
std::vector<uint8_t> sparse(size_t size)
{
    constexpr size_t kRow = 12;
    size_t rows = size / (kRow * 12 + 4 + 4 * 8);
    Random random(2);
    std::vector<double> values;
    std::vector<int32_t> columns;
    std::vector<int32_t> starts;
    std::vector<double> vectors(4 * rows, 1.0);
    for (size_t row = 0; row < rows; row++) {
        starts.push_back(int32_t(columns.size()));
        int64_t column = int64_t(row) - 200;
        for (size_t i = 0; i < kRow; i++) {
            column += int64_t(1 + random() % 60);
            columns.push_back(int32_t(std::max<int64_t>(0, column)));
            values.push_back(i == kRow / 2 ? 4.0 : -0.25 * double(1 + random() % 8));
        }
    }
    double x = 0.3;
    for (size_t i = 0; i < rows; i++) {
        x = 3.7 * x * (1 - x);
        vectors[i] = x;
        vectors[rows + i] = 1 + x / 1e3;
    }
    std::vector<uint8_t> out;
    append(out, values);
    append(out, columns);
    append(out, starts);
    append(out, vectors);
    return out;
}

// Molecules: positions near a lattice, thermal velocities, forces, types, lists of neighbours.
std::vector<uint8_t> molecules(size_t size)
{
    constexpr size_t kNeighbours = 36;
    size_t atoms = size / (9 * 8 + 8 + kNeighbours * 4);
    auto edge = size_t(std::cbrt(double(atoms))) + 1;
    Random random(3);
    std::normal_distribution<double> thermal(0, 0.05);
    std::vector<double> position;
    std::vector<double> velocity;
    std::vector<double> force;
    std::vector<int32_t> type_and_image;
    std::vector<int32_t> neighbours;
    for (size_t i = 0; i < atoms; i++) {
        for (size_t c : {i % edge, i / edge % edge, i / edge / edge}) {
            position.push_back(1.68 * double(c) + thermal(random));
            velocity.push_back(20 * thermal(random));
            force.push_back(400 * thermal(random));
        }
        type_and_image.push_back(1);
        type_and_image.push_back(512 | 512 << 10 | 512 << 20);
        auto near = int64_t(i);
        for (size_t n = 0; n < kNeighbours; n++) {
            near += int64_t(1 + random() % (n % 6 == 0 ? edge : 3));
            neighbours.push_back(int32_t(near % int64_t(atoms)));
        }
    }
    std::vector<uint8_t> out;
    append(out, position);
    append(out, velocity);
    append(out, force);
    append(out, type_and_image);
    append(out, neighbours);
    return out;
}

// Spectra: a complex field after a transform, its twiddle factors, the field that it came from.
std::vector<uint8_t> spectrum(size_t size)
{
    size_t n = size / 8 / 5;
    Random random(6);
    std::vector<double> field(2 * n);
    std::vector<double> transformed(2 * n);
    std::vector<double> twiddles(n);
    for (size_t i = 0; i < 2 * n; i++) {
        field[i] = double(random() >> 11) * 0x1p-53;
        double k = 1 + double(i / 2 % 4096);
        transformed[i] = (field[i] - 0.5) * std::exp(-1e-6 * k * k) * 1e3;
    }
    for (size_t i = 0; i < n; i++)
        twiddles[i] = std::cos(3.14159265358979 * double(i % 8192) / 8192);
    std::vector<uint8_t> out;
    append(out, field);
    append(out, transformed);
    append(out, twiddles);
    return out;
}

// Arrays of an interpreter: samples, their running sums, an order of them, counts, ones and zeros.
std::vector<uint8_t> arrays(size_t size)
{
    size_t n = size / 8 / 5;
    Random random(4);
    std::normal_distribution<double> normal;
    std::vector<double> samples(n);
    std::vector<double> sums(n);
    std::vector<int64_t> order(n);
    std::vector<int64_t> counts(n);
    std::vector<double> weights(n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        samples[i] = normal(random);
        sums[i] = sum += samples[i];
        order[i] = int64_t(random() % n);
        counts[i] = int64_t(random() % 1000);
        weights[i] = i % 3 ? 1.0 : 0.0;
    }
    std::vector<uint8_t> out;
    append(out, samples);
    append(out, sums);
    append(out, order);
    append(out, counts);
    append(out, weights);
    return out;
}

// A heap of small objects: headers of malloc, pointers to each other, lengths, short texts.
std::vector<uint8_t> objects(size_t size)
{
    Random random(5);
    constexpr uint64_t kHeap = 0x55555577a000;
    std::vector<uint64_t> out;
    while (out.size() < size / 8) {
        uint64_t words = 4 + 2 * (random() % 4);
        out.push_back(words * 8 | 1);
        out.push_back(kHeap + (random() % size & ~uint64_t(15)));
        out.push_back(kHeap + out.size() * 8);
        out.push_back(random() % 40);
        for (uint64_t i = 4; i < words; i++) {
            char text[9] = {};
            size_t length = random() % 9;
            for (size_t c = 0; c < length; c++)
                text[c] = "etaoinshrdlu_012"[random() % 16];
            uint64_t word;
            memcpy(&word, text, sizeof word);
            out.push_back(word);
        }
    }
    std::vector<uint8_t> bytes;
    append(bytes, out);
    return bytes;
}

} // namespace

std::vector<State> make_states(size_t size)
{
    std::vector<State> states{{"multigrid", multigrid(size)}, {"sparse matrix", sparse(size)},
                              {"molecules", molecules(size)}, {"spectrum", spectrum(size)},
                              {"arrays", arrays(size)},       {"objects", objects(size)}};
    for (State &s : states)
        s.bytes.resize(size);
    return states;
}

} // namespace cryo::bench
