// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a session: chunks, private buffers, key messages.
 *
 * A buffer is as few physically contiguous pieces as the page allocator would
 * give without effort.  The session allocates all of its buffers before its
 * first path exists and frees them after the last one is gone; in between their
 * layout never changes and anybody may look at it.  What is in them belongs to
 * the operation that uses the buffer id.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"

/* Larger pieces gain nothing. */
#define BUF_MAX_ORDER	8

static struct page *alloc_piece(int node, unsigned int *order)
{
	gfp_t gfp = GFP_KERNEL | __GFP_ZERO;
	struct page *page;

	for (; *order; (*order)--) {
		page = alloc_pages_node(node, gfp | __GFP_COMP | __GFP_NOWARN |
					__GFP_NORETRY, *order);
		if (page)
			return page;
	}
	/* A client that asks for too much must not cost others their lives. */
	return alloc_pages_node(node, gfp | __GFP_NOWARN | __GFP_RETRY_MAYFAIL,
				0);
}

/**
 * server_buf_alloc() - allocate a buffer of zeroes
 * @buf:	result
 * @size:	bytes
 * @node:	preferred memory node
 *
 * Context: process context, sleeps.
 * Return: 0 or -ENOMEM.
 */
int server_buf_alloc(struct server_buf *buf, u32 size, int node)
{
	unsigned int order, nr = 0, max = DIV_ROUND_UP(size, PAGE_SIZE);
	struct bio_vec *ext;
	struct page *page;

	ext = kvmalloc_array(max, sizeof(*ext), GFP_KERNEL);
	if (!ext)
		return -ENOMEM;
	order = BUF_MAX_ORDER;
	while (size) {
		order = min_t(unsigned int, order,
			      ilog2(DIV_ROUND_UP(size, PAGE_SIZE)));
		page = alloc_piece(node, &order);
		if (!page)
			break;
		ext[nr].bv_page = page;
		ext[nr].bv_offset = 0;
		ext[nr].bv_len = min_t(u32, size, PAGE_SIZE << order);
		size -= ext[nr++].bv_len;
	}
	buf->nr_ext = nr;
	buf->ext = kmemdup(ext, nr * sizeof(*ext), GFP_KERNEL);
	if (!size && buf->ext) {
		kvfree(ext);
		return 0;
	}
	while (nr--)
		__free_pages(ext[nr].bv_page, get_order(ext[nr].bv_len));
	kvfree(ext);
	kfree(buf->ext);
	buf->ext = NULL;
	buf->nr_ext = 0;
	return -ENOMEM;
}

/**
 * server_buf_free() - free a buffer
 * @buf:	the buffer; zeroed memory is legal
 */
void server_buf_free(struct server_buf *buf)
{
	while (buf->nr_ext) {
		struct bio_vec *ext = &buf->ext[--buf->nr_ext];

		__free_pages(ext->bv_page, get_order(ext->bv_len));
	}
	kfree(buf->ext);
	buf->ext = NULL;
}

/*
 * How many of @len bytes from *@off on piece @i holds.  None: they begin behind
 * it, and *@off is from there.
 */
static u32 in_piece(const struct server_buf *buf, u32 i, u32 *off, u32 len)
{
	u32 size = buf->ext[i].bv_len;

	if (*off < size)
		return min(len, size - *off);
	*off -= size;
	return 0;
}

static void *piece_addr(const struct bio_vec *ext)
{
	return page_address(ext->bv_page);
}

/**
 * server_buf_at() - address of something that does not cross a page
 * @buf:	the buffer
 * @off:	its offset
 */
void *server_buf_at(const struct server_buf *buf, u32 off)
{
	u32 i;

	for (i = 0; i < buf->nr_ext; i++)
		if (in_piece(buf, i, &off, 1))
			return piece_addr(&buf->ext[i]) + off;
	return NULL;
}

/**
 * server_buf_read() - copy out of a buffer
 * @buf:	source
 * @off:	offset in it
 * @dst:	destination
 * @len:	bytes
 */
void server_buf_read(const struct server_buf *buf, u32 off, void *dst, u32 len)
{
	u32 i, part;

	for (i = 0; len && i < buf->nr_ext; i++) {
		part = in_piece(buf, i, &off, len);
		if (!part)
			continue;
		memcpy(dst, piece_addr(&buf->ext[i]) + off, part);
		dst += part;
		len -= part;
		off = 0;
	}
}

/**
 * server_buf_copy() - copy the beginning of a buffer to the beginning of another
 * @dst:	destination, large enough
 * @src:	source
 * @len:	bytes
 */
void server_buf_copy(const struct server_buf *dst, const struct server_buf *src,
		     u32 len)
{
	u32 i, part, done = 0, off = 0;

	for (i = 0; len && i < dst->nr_ext; i++) {
		part = in_piece(dst, i, &off, len);
		if (!part)
			continue;
		server_buf_read(src, done, piece_addr(&dst->ext[i]), part);
		done += part;
		len -= part;
	}
}

/**
 * server_buf_bvec() - describe the beginning of a buffer for the user
 * @buf:	the buffer
 * @len:	bytes
 * @bvec:	result, room for all pieces
 *
 * Return: entries written.
 */
unsigned int server_buf_bvec(const struct server_buf *buf, u32 len,
			     struct bio_vec *bvec)
{
	u32 i, part, off = 0;
	unsigned int nr = 0;

	for (i = 0; len && i < buf->nr_ext; i++) {
		part = in_piece(buf, i, &off, len);
		if (!part)
			continue;
		bvec[nr] = buf->ext[i];
		bvec[nr++].bv_len = part;
		len -= part;
	}
	return nr;
}

/**
 * server_buf_sge() - describe a part of a buffer for the device
 * @dom:	the session's domain on it
 * @buf:	the buffer
 * @off:	offset of the part
 * @len:	bytes wanted; on return: bytes described
 * @sge:	result
 * @max:	entries of @sge
 *
 * Return: entries written.
 */
unsigned int server_buf_sge(const struct server_domain *dom,
			    const struct server_buf *buf, u32 off, u32 *len,
			    struct ib_sge *sge, unsigned int max)
{
	u32 i, part, left = *len;
	unsigned int nr = 0;

	for (i = 0; left && i < buf->nr_ext; i++) {
		part = in_piece(buf, i, &off, left);
		if (!part)
			continue;
		if (nr == max)
			break;
		sge[nr].addr = dom->dma[buf->first + i] + off;
		sge[nr].length = part;
		sge[nr++].lkey = dom->base.pd->local_dma_lkey;
		left -= part;
		off = 0;
	}
	*len -= left;
	return nr;
}

/**
 * server_buf_sync_cpu() - the processor is going to read what the peer wrote
 * @dom:	the session's domain on the device that received it
 * @buf:	the buffer
 * @off:	offset of the part that will be read
 * @len:	bytes of it
 */
void server_buf_sync_cpu(const struct server_domain *dom,
			 const struct server_buf *buf, u32 off, u32 len)
{
	u32 i, part;

	for (i = 0; len && i < buf->nr_ext; i++) {
		part = in_piece(buf, i, &off, len);
		if (!part)
			continue;
		ib_dma_sync_single_for_cpu(dom->base.dev,
					   dom->dma[buf->first + i] + off,
					   part, DMA_FROM_DEVICE);
		len -= part;
		off = 0;
	}
}

/**
 * server_buf_sync_dev() - the device is going to send what the processor wrote
 * @dom:	the session's domain on that device
 * @buf:	the buffer
 * @off:	offset of the part that will be sent
 * @len:	bytes of it
 */
void server_buf_sync_dev(const struct server_domain *dom,
			 const struct server_buf *buf, u32 off, u32 len)
{
	u32 i, part;

	for (i = 0; len && i < buf->nr_ext; i++) {
		part = in_piece(buf, i, &off, len);
		if (!part)
			continue;
		ib_dma_sync_single_for_device(dom->base.dev,
					      dom->dma[buf->first + i] + off,
					      part, DMA_TO_DEVICE);
		len -= part;
		off = 0;
	}
}
