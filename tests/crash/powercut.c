/*
 * A power cut that can be had at any moment: what was not fsynced is gone.
 *
 * Preloaded into the daemon, this keeps beside the folder POWERCUT_DIR a second one, POWERCUT_DISK, that holds what a disk
 * would hold: of every file its bytes as of its last fsync, and the names as of the last fsync of the folder. A new file's
 * name is there once the file was fsynced, as journalling file systems have it. To cut the power, kill the process and
 * make the folder anew from POWERCUT_DISK/names and POWERCUT_DISK/files (tests/crash/power.py does).
 *
 * While there is a POWERCUT_DISK/sick, the disk fails: no fsync of the folder's files succeeds, and none reaches it.
 *
 * Built by tests/crash/power.py: cc -shared -fPIC -O2 -o powercut.so powercut.c -ldl
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;

static int real_sync(const char *name, int fd) {
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return next(fd);
}

/* The path behind a descriptor, if it is POWERCUT_DIR itself ("") or a file right inside it (its name). */
static int name_inside(int fd, char *name) {
    const char *dir = getenv("POWERCUT_DIR");
    char link[64], path[PATH_MAX];
    if (dir == NULL || getenv("POWERCUT_DISK") == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    size_t prefix = strlen(dir);
    if (strncmp(path, dir, prefix) != 0)
        return 0;
    if (path[prefix] == '\0') {
        name[0] = '\0';
        return 1;
    }
    if (path[prefix] != '/' || strchr(path + prefix + 1, '/') != NULL || strstr(path, " (deleted)") != NULL)
        return 0;
    strcpy(name, path + prefix + 1);
    return 1;
}

/* Whole or not at all: written under another name, then renamed. */
static int replace_on_disk(const char *what, int (*write_it)(int out, const void *about), const void *about) {
    char final[PATH_MAX], draft[PATH_MAX + sizeof ".draft"];
    snprintf(final, sizeof final, "%s/%s", getenv("POWERCUT_DISK"), what);
    snprintf(draft, sizeof draft, "%s.draft", final);
    int out = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0)
        return -1;
    int failed = write_it(out, about);
    close(out);
    return failed ? -1 : rename(draft, final);
}

static int write_content(int out, const void *about) {
    static char block[1 << 16];
    int in = *(const int *)about;
    off_t at = 0;
    for (;;) {
        ssize_t got = pread(in, block, sizeof block, at);
        if (got <= 0)
            return got < 0;
        if (write(out, block, (size_t)got) != got)
            return 1;
        at += got;
    }
}

/* One line for each file: its inode and its name. */
static int write_names(int out, const void *about) {
    (void)about;
    const char *dir = getenv("POWERCUT_DIR");
    DIR *listing = opendir(dir);
    if (listing == NULL)
        return 1;
    struct dirent *entry;
    int failed = 0;
    while ((entry = readdir(listing)) != NULL) {
        char path[PATH_MAX];
        struct stat about_file;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (lstat(path, &about_file) == 0 && S_ISREG(about_file.st_mode))
            failed |= dprintf(out, "%lu %s\n", (unsigned long)about_file.st_ino, entry->d_name) < 0;
    }
    closedir(listing);
    return failed;
}

struct line {
    unsigned long inode;
    const char *name;
};

/* The names as they were, and one more, unless that name is there already. */
static int write_names_and(int out, const void *about) {
    const struct line *added = about;
    char path[PATH_MAX], kept[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/names", getenv("POWERCUT_DISK"));
    FILE *names = fopen(path, "r");
    int known = 0;
    while (names != NULL && fgets(kept, sizeof kept, names) != NULL) {
        char *name = strchr(kept, ' ');
        size_t length = strlen(added->name);
        if (name != NULL && strncmp(name + 1, added->name, length) == 0 && name[1 + length] == '\n')
            known = 1;
        if (write(out, kept, strlen(kept)) < 0)
            return 1;
    }
    if (names != NULL)
        fclose(names);
    return !known && dprintf(out, "%lu %s\n", added->inode, added->name) < 0;
}

static void reach_the_disk(int fd) {
    char name[PATH_MAX], what[64];
    struct stat about_file;
    if (!name_inside(fd, name) || fstat(fd, &about_file) != 0)
        return;
    pthread_mutex_lock(&disk);
    int failed;
    if (name[0] == '\0') {
        failed = replace_on_disk("names", write_names, NULL);
    } else {
        struct line added = {(unsigned long)about_file.st_ino, name};
        snprintf(what, sizeof what, "files/%lu", added.inode);
        char self[64];
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        int in = open(self, O_RDONLY | O_CLOEXEC); /* the caller's may be for writing only */
        failed = in < 0 || replace_on_disk(what, write_content, &in) || replace_on_disk("names", write_names_and, &added);
        if (in >= 0)
            close(in);
    }
    pthread_mutex_unlock(&disk);
    if (failed) {
        dprintf(2, "powercut: cannot keep what was fsynced\n");
        abort();
    }
}

static int is_sick(int fd) {
    char name[PATH_MAX], sick[PATH_MAX];
    if (!name_inside(fd, name))
        return 0;
    snprintf(sick, sizeof sick, "%s/sick", getenv("POWERCUT_DISK"));
    return access(sick, F_OK) == 0;
}

static int sync_by(const char *how, int fd) {
    if (is_sick(fd)) {
        errno = EIO;
        return -1;
    }
    int result = real_sync(how, fd);
    if (result == 0)
        reach_the_disk(fd);
    return result;
}

int fsync(int fd) {
    return sync_by("fsync", fd);
}

int fdatasync(int fd) {
    return sync_by("fdatasync", fd);
}
