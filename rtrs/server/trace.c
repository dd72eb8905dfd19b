// SPDX-License-Identifier: GPL-2.0
/*
 * The bodies of the server's tracepoints.
 */
#define CREATE_TRACE_POINTS
#include "rtrs/server/trace.h"
