// SPDX-License-Identifier: Apache-2.0
// Local time and locale, as the program set them.
#include "probe.h"

#include <locale.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(setenv("TZ", "XYZ-5:30", 1));
    tzset();
    PROBE_MAP(setlocale(LC_ALL, "C.UTF-8"));
    const time_t instant = 1000000000;
    do {
        probe_ready();
        PROBE_SABOTAGE("local time", setenv("TZ", "UTC", 1));
        char text[64];
        strftime(text, sizeof text, "%F %T %Z", localtime(&instant));
        probe_equal_text("local time", "2001-09-09 07:16:40 XYZ", text);
        probe_equal_text("locale", "C.UTF-8", setlocale(LC_ALL, NULL));
        probe_equal("bytes of a character", 2, mblen("ä", 4));
    } while (probe_more());
    return probe_pass();
}
