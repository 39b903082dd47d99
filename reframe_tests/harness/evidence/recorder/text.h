/* Text as JSON, and the small files of /proc and /sys it comes from; part of recorder.c. */
#ifndef RECORDER_TEXT_H
#define RECORDER_TEXT_H
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- text: a growing buffer; once anything failed it stays bad and is never written out ---- */

struct text {
    char *data;
    size_t length, room;
    bool bad;
};

static void put_bytes(struct text *out, const char *bytes, size_t count)
{
    if (out->bad)
        return;
    if (out->length + count + 1 > out->room) {
        size_t room = 2 * (out->length + count) + 4096;
        char *grown = realloc(out->data, room);
        if (!grown) {
            out->bad = true;
            return;
        }
        out->data = grown;
        out->room = room;
    }
    memcpy(out->data + out->length, bytes, count);
    out->length += count;
    out->data[out->length] = '\0';
}

static void put(struct text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *out, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (count < 0 || (size_t)count >= sizeof line)
        out->bad = true;
    else
        put_bytes(out, line, (size_t)count);
}

/* A JSON string of at most `limit` bytes. Bytes above ASCII become \u00XX, which the reader turns back into bytes. */
static void put_limited(struct text *out, const char *string, size_t limit)
{
    put_bytes(out, "\"", 1);
    for (const char *at = string; *at && (size_t)(at - string) < limit; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\')
            put(out, "\\%c", byte);
        else if (byte < 0x20 || byte > 0x7e)
            put(out, "\\u%04x", byte);
        else
            put_bytes(out, at, 1);
    }
    put_bytes(out, "\"", 1);
}

static void put_string(struct text *out, const char *string) /* NULL is null */
{
    if (string)
        put_limited(out, string, SIZE_MAX);
    else
        put(out, "null");
}

static void put_comma(struct text *out) /* before the next member, unless it is the first one */
{
    if (!out->bad && out->length && !strchr("{[,", out->data[out->length - 1]))
        put(out, ",");
}

static void put_member(struct text *out, const char *name)
{
    put_comma(out);
    put_string(out, name);
    put(out, ":");
}

/* ---- files of /proc and /sys ---- */

static char *read_file(const char *path) /* whole content, to be freed; NULL when it cannot be read */
{
    struct text content = {0};
    char piece[4096];
    ssize_t count;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    put_bytes(&content, "", 0);
    while ((count = read(file, piece, sizeof piece)) > 0)
        put_bytes(&content, piece, (size_t)count);
    close(file);
    if (count < 0 || content.bad) {
        free(content.data);
        return NULL;
    }
    return content.data;
}

/* ---- paths are formats, so that callers need no buffer of their own ---- */

static bool make_path(char path[PATH_MAX], const char *format, va_list arguments)
{
    int count = vsnprintf(path, PATH_MAX, format, arguments);
    return count > 0 && count < PATH_MAX;
}

/* First line of a file, to be freed; NULL when it is missing, unreadable or empty. */
static char *read_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *read_line(const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    char *line = make_path(path, format, arguments) ? read_file(path) : NULL;
    va_end(arguments);
    if (line)
        line[strcspn(line, "\n")] = '\0';
    if (line && !*line) {
        free(line);
        line = NULL;
    }
    return line;
}

/* Member with a line read elsewhere, which is freed. */
static void put_line(struct text *out, const char *name, char *line)
{
    put_member(out, name);
    put_string(out, line);
    free(line);
}

/* Member with the number a line starts with ("123", or "123@time" of cxi), times `unit`; no member when it has none. */
static bool put_number(struct text *out, const char *name, char *line, uint64_t unit)
{
    char *end = line;
    errno = 0;
    unsigned long long value = line && *line != '-' ? strtoull(line, &end, 10) : 0;
    bool good = line && end != line && !errno;
    if (good) {
        put_member(out, name);
        put(out, "%llu", value * (unsigned long long)unit);
    }
    free(line);
    return good;
}

/* Member with the last part of a link's target, null when it is not a link. */
static void put_link(struct text *out, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void put_link(struct text *out, const char *name, const char *format, ...)
{
    char path[PATH_MAX], target[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    ssize_t count = make_path(path, format, arguments) ? readlink(path, target, sizeof target - 1) : -1;
    va_end(arguments);
    if (count < 0)
        count = 0;
    target[count] = '\0';
    const char *last = strrchr(target, '/');
    put_member(out, name);
    put_string(out, !count ? NULL : last ? last + 1 : target);
}

/* Calls `visit` with every entry of a directory that is not hidden. */
static void each_entry(struct text *out, void (*visit)(struct text *, const char *), const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void each_entry(struct text *out, void (*visit)(struct text *, const char *), const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    DIR *directory = make_path(path, format, arguments) ? opendir(path) : NULL;
    va_end(arguments);
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.')
            visit(out, entry->d_name);
    if (directory)
        closedir(directory);
}

/* Value of "field" in a status file, to be freed. */
static char *status_field(const char *path, const char *field)
{
    char *found = NULL, *status = read_file(path);
    size_t width = strlen(field);
    for (char *line = status; line && !found; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, field, width)) {
            line += width + strspn(line + width, " \t");
            found = strndup(line, strcspn(line, "\n"));
        }
    free(status);
    return found;
}

#endif
