// Pages that have a word, such as save, come before methods and parts of names; predict_interval finds the methods.
Scorer.score = ([, title, , , score, , kind]) =>
  kind === "object" && (score < 16 || /\.[a-z]+$/.test(title)) ? score - 13 : score;
