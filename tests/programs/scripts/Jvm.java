// SPDX-License-Identifier: Apache-2.0
// A Java virtual machine: threads, a lock that is held, collections, the collector and compiled code.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.ReentrantLock;

final class Jvm {
    private static Path directory;
    private static String sabotage = "";
    private static int number = 1;

    private static void publish(String name, String text) throws IOException {
        Path draft = directory.resolve(name + "." + number + ".draft");
        Files.writeString(draft, text);
        Files.move(draft, directory.resolve(name + "." + number));
    }

    private static void equal(String what, Object expected, Object found) throws IOException {
        if (!expected.equals(found)) {
            publish("verdict", "FAIL: " + what + ": expected " + expected + ", found " + found);
            Runtime.getRuntime().halt(1);
        }
    }

    private static boolean sabotaged(String name) {
        return sabotage.equals(name);
    }

    private static long work(int rounds) {
        long sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum = sum * 31 + i % 7;
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            if (arguments[i].equals("--dir")) {
                directory = Path.of(arguments[i + 1]);
            } else if (arguments[i].equals("--sabotage")) {
                sabotage = arguments[i + 1];
            }
        }
        Map<String, Integer> table = new HashMap<>();
        for (int i = 0; i < 10000; i++) {
            table.put("key " + i, i);
        }
        ReentrantLock lock = new ReentrantLock();
        ExecutorService pool = Executors.newFixedThreadPool(3);
        long expected = work(1000000);
        String told = "more";
        while (true) {
            lock.lock();
            Future<Boolean> waiter = pool.submit(() -> {
                lock.lock();
                lock.unlock();
                return true;
            });
            publish("ready", "");
            Path check = directory.resolve("check." + number);
            while (!Files.exists(check)) {
                Thread.sleep(2);
            }
            told = Files.readString(check);
            if (sabotaged("table")) {
                table.remove("key 7");
            }
            equal("size of the table", 10000, table.size());
            equal("entry of the table", 77, table.get("key 77"));
            equal("thread that waits for the lock", false, waiter.isDone());
            lock.unlock();
            equal("thread that got the lock", true, waiter.get());
            equal("sum by compiled code", expected, work(1000000));
            System.gc();
            if (!told.contains("more")) {
                break;
            }
            publish("verdict", "PASS");
            number++;
        }
        pool.shutdown();
        publish("verdict", "PASS");
        System.out.println("PASS");
    }
}
