/* SPDX-License-Identifier: GPL-2.0 */
/* Between the files of rtrs-core.ko only. */
#ifndef RTRS_CORE_INTERNAL_H
#define RTRS_CORE_INTERNAL_H

#include "rtrs/core/core.h"

unsigned int rtrs_conn_stalled(struct rtrs_conn *conn);

void rtrs_cm_module_exit(void);
int rtrs_hb_module_init(void);
void rtrs_hb_module_exit(void);

#endif /* RTRS_CORE_INTERNAL_H */
