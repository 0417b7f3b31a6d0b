/* nvidia-persistenced: a daemon that remembers whether persistence mode is on, and refuses to start without a driver.
 *
 * rehearsal stand-in; nvidia-smi reads the mode from the file this one writes.
 */
#include "hardware.h"

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#define FOLDER "/run/nvidia-persistenced"

static int write_text(const char *path, int number)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return 1;
    fprintf(file, "%d\n", number);
    return fclose(file);
}

static int drop_to(const char *name)
{
    struct passwd *user = getpwnam(name);
    if (!user) {
        fprintf(stderr, "nvidia-persistenced failed to initialize. Unable to find user '%s'.\n", name);
        return 1;
    }
    if (chown(FOLDER, user->pw_uid, user->pw_gid) || setgroups(0, NULL))
        return 1;
    return setgid(user->pw_gid) || setuid(user->pw_uid);
}

int main(int argc, char **argv)
{
    const char *user = NULL;
    int persists = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--no-persistence-mode")) persists = 0;
        else if (!strcmp(argv[i], "--persistence-mode")) persists = 1;
        else if (!strcmp(argv[i], "--user") && i + 1 < argc) user = argv[++i];
        else if (!strcmp(argv[i], "--version")) { puts("nvidia-persistenced:  version " USER_SPACE " (rehearsal stand-in)"); return 0; }
    }
    openlog("nvidia-persistenced", LOG_PID, LOG_DAEMON);
    const char *loaded = loaded_version();
    struct gpu gpus[MOST_GPUS];
    if (!loaded || strcmp(loaded, USER_SPACE) || control_device_error() || !find_gpus(gpus)) {
        syslog(LOG_ERR, "Failed to query NVIDIA devices. Please ensure that the NVIDIA device files (/dev/nvidia*) exist.");
        fputs("nvidia-persistenced failed to initialize. Check syslog for more details.\n", stderr);
        return 1;
    }
    mkdir(FOLDER, 0755);
    if (write_text(FOLDER "/mode", persists) || daemon(0, 0) || write_text(FOLDER "/nvidia-persistenced.pid", getpid()))
        return 1;
    if (user && drop_to(user))
        return 1;
    syslog(LOG_NOTICE, "rehearsal stand-in: persistence mode %s", persists ? "enabled" : "disabled");
    sigset_t stops;
    int which;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    sigprocmask(SIG_BLOCK, &stops, NULL);
    return sigwait(&stops, &which);
}
